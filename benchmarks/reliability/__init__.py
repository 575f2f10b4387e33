"""What survives when parts of a sweep are killed."""
