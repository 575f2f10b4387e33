"""The plots of a search, one file each: what a page needs to draw them."""
