"""What is lost when parts of a running sweep fail."""
