"""Models in training. These modules import PyTorch at the top and are imported when a fit needs them."""
