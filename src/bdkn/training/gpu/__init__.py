"""Training on a GPU: one program trains one network from its first to its last step."""
