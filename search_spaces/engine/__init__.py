"""What turns a file with a `space` into something a sweep can search."""
