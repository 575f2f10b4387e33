"""The cost of a training step, a trial and a proposal."""
