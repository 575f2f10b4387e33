"""The systems that TARDIS is compared with, one file each."""
