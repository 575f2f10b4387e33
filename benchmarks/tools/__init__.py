"""What benchmarks and tests look with: a browser, screenshots, sanitizers."""
