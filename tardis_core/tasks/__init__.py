"""The tasks of the paper: each is a file with its batches, loss, metric and default settings."""
