"""Schedulers decide after each result whether a trial continues; one file each."""
