"""The paper's tables and figures: a file each, registered under its name."""
