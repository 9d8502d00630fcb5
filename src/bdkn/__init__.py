"""Regression with honest uncertainty."""
