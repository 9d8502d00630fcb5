"""Compiled inner loops for training and prediction: matrix products, elementary functions, transposition."""
