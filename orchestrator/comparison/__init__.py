"""Which model is better, and how certain that is."""
