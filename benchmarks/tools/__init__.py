"""Plots, screenshots, sanitizers and the coverage of intervals."""
