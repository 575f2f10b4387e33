"""What a sweep is to do: its plan, its options, its dry run."""
