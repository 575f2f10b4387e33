"""What a step, a trial and a proposal cost."""
