"""Draw how wide intervals are over two columns: near training rows, in a hole between them, and far from them.

The training rows lie on a ring. All models estimate the noise there; there are no rows in the hole and outside.

Run it with ``python examples/plot_width.py [picture.png]``. It needs ``pip install "bdkn[plots]"``.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

import bdkn
from bdkn.plots import WidthDisplay

TREES = [("extra trees", ExtraTreesRegressor(200)), ("boosting", HistGradientBoostingRegressor())]

MODELS = {
    "BDKN": bdkn.BDKNRegressor(epochs=200),
    "Deep ensemble": bdkn.DeepEnsembleRegressor(epochs=200),
    "Stack of trees": bdkn.BayesianStackingRegressor(TREES),
}


def rows(n, seed):
    """Return rows on a ring, and noisy targets."""
    rng = np.random.default_rng(seed)
    angle, radius = rng.uniform(0, 2 * np.pi, n), rng.normal(1.0, 0.12, n)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    return X, np.sin(3 * X[:, 0]) * X[:, 1] + 0.05 * rng.normal(size=n)


def main(path="width.png"):
    """Fit the models, print the width of intervals at three places, and draw it everywhere."""
    X, _ = training = rows(400, seed=0)
    places = np.array([[1.0, 0.0], [0.0, 0.0], [3.0, 3.0]])
    figure, grid = plt.subplots(1, len(MODELS), figsize=(15, 4.4), sharex=True, sharey=True, layout="constrained")
    print(f"{'width':16} {'on the ring':>12} {'in the hole':>12} {'outside':>12}")
    for axes, (name, model) in zip(grid, MODELS.items(), strict=True):
        model.set_params(random_state=0).fit(*training)
        low, high = model.predict_dist(places).interval(0.9)
        print(f"{name:16} {' '.join(f'{width:12.2f}' for width in high - low)}")
        WidthDisplay.from_estimator(model, X, ax=axes, name=name)
        axes.collections[0].set_clim(0.15, 6.0)
    figure.suptitle("Width of 90 % intervals, and the training rows")
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:2])
