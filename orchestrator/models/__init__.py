"""Trained models: looked up, exported, served."""
