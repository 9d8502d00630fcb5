"""Members, cross-fitting, held-out predictions and selection."""
