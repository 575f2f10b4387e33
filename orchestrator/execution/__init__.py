"""How a sweep runs: the driver, the cluster, the trials."""
