"""What a sweep searches: one file a task."""
