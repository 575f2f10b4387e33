"""The sequence models: TARDIS in the parts the paper describes, and its baselines."""
