from bdkn.rows import Rows
import numpy as np


def as_row_source(X, y=None, sample_weight=None, groups=None):
    return X if hasattr(X, "blocks") else None


class ArrayRows:
    def __init__(s, X, y, sample_weight=None, groups=None, step=1000):
        s.r = Rows(X, np.asarray(y, float), sample_weight, groups)
        s.step = step

    def __len__(s):
        return len(s.r)

    def blocks(s, size=None):
        return s.r.blocks(size or s.step)
