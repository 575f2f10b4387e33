"""HTML pages of one file each: tables, plots and images, with nothing to load from elsewhere."""
