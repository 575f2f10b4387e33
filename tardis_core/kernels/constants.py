"""The fixed numbers of the model's equations."""

LAST_READ_PENALTY = 100.0  # taken from the logit of the cell read last
NORM_EPSILON = 1e-5  # of layer normalisation, and of the usage of the cells
RESET_TEMPERATURE = 0.3  # of the RESET gates
