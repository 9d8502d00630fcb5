"""What PyTorch and its relatives train for the regressors; each module is imported once a fit asks for it."""
