"""Rows: data frames, encoders, folds and row sources."""
