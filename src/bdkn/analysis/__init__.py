"""Functions of any fitted regressor: explanations, partial dependence, decisions."""
