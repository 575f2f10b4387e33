"""How a gradient passes a discrete read: each estimator is a file."""
