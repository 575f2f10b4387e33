"""Trained models on new inputs, without the data that they were trained on: a file a task."""
