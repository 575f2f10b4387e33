"""Measurements of speed and reliability, and tools around them; each is `python -m MODULE`."""
