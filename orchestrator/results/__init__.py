"""What a sweep has measured, loaded once, and the report about it."""
