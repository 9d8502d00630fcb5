"""Compiled inner loops: register tiles, elementary functions, transposition; for training and for prediction."""
