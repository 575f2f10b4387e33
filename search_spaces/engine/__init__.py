"""The machinery behind the spaces: ranges, loading, fixed settings, sampling."""
