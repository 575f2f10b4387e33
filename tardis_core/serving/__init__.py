"""Trained models on new inputs, without the data that they were trained on: one file per task."""
