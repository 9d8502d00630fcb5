"""Numbers computed from records: means over splits, comparisons with the paper, tests between methods."""
