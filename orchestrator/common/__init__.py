"""What all rooms share: redaction, provenance, permissions, logs."""
