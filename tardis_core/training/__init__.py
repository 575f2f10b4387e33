"""Training on one machine: the objective, the loop, checkpoints and the learning-rate schedule."""
