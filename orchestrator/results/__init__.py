"""What a sweep has measured, and the report of it."""
