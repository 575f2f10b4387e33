"""Looking inside: memory access, lengths of paths, and the flow of gradients."""
