"""Where the data of a task comes from: found, downloaded, verified, cached, or stood in for."""
