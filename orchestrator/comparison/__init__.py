"""Which system is better, and how sure we are."""
