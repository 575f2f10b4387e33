"""Sweeps of trainings on one machine or many: the only package that knows Ray and MLflow."""
