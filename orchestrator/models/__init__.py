"""Trained models: looked up by name, exported, served."""
