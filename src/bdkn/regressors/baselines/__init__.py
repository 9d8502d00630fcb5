"""The six methods that the paper compares with, each trained by PyTorch.

This file imports nothing: fitted states must be importable without the regressors, for model files.
"""
