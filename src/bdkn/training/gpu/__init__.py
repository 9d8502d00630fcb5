"""Training on a GPU: one block of threads trains one network from its first to its last step."""
