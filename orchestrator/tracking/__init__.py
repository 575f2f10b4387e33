"""How a sweep is recorded exactly once: the event log, its delivery, MLflow."""
