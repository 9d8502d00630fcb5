"""Compare the predictions of eight methods for one curve, near training rows, between them and far from them.

The training rows are in two clusters with a gap between them. Inside the clusters all methods should find the curve and
the noise. In the gap and outside, the curve is not known, and the predicted standard deviation should be large.

Run it with ``python examples/plot_eight_methods.py [picture.png]``. It needs ``pip install ./reproduction``.
"""

from __future__ import annotations

import sys
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np

import bdkn
import bdkn_paper
from bdkn.metrics import coverage, nll
from bdkn.plots.display import BLUE, INK, central_bands, draw_bands

NOISE = 0.15


def truth(x):
    """Return the curve without noise."""
    return np.sin(3 * x) + 0.5 * x


def rows(n, seed):
    """Return rows from two clusters, and noisy targets."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random(n) < 0.5, rng.uniform(-2.0, -0.6, n), rng.uniform(0.5, 2.0, n))
    return x[:, None], truth(x) + NOISE * rng.normal(size=n)


# All methods have their default parameters, except for fewer epochs, which suffice for this simple curve. MFVI has a
# smaller network and one batch; even so, with so few rows its prior dominates half of the curve, as is known of it.
METHODS = {
    "BDKN": bdkn.BDKNRegressor(epochs=300),
    "Deep ensemble": bdkn.DeepEnsembleRegressor(epochs=300),
    "GP": bdkn_paper.GPRegressor(),
    "DKL": bdkn_paper.DKLRegressor(epochs=400),
    "BLL": bdkn_paper.BLLRegressor(epochs=400),
    "LDBLL": bdkn_paper.LDBLLRegressor(epochs=200),
    "MFVI": bdkn_paper.MFVIRegressor(
        hidden_layer_sizes=20, learning_rate=0.02, batch_size=None, epochs=2000, early_stopping=False
    ),
    "VBLL": bdkn_paper.VBLLRegressor(epochs=150, learning_rate=0.01),
}


def draw(axes, name, model, line):
    """Draw the mean and the central 50 and 95 % intervals of a fitted model."""
    dist = model.predict_dist(line[:, None])
    draw_bands(axes, line, central_bands(dist, (0.5, 0.95)))
    axes.plot(line, dist.mean(), color=BLUE, linewidth=1.5)
    axes.plot(line, truth(line), color=INK, linewidth=0.8, linestyle="--")
    axes.set(title=name, xlim=(line[0], line[-1]), ylim=(-4, 4))


def main(path="eight_methods.png"):
    """Fit all methods, print the scores of each on new rows of the clusters, and draw their predictions."""
    warnings.simplefilter("ignore", bdkn.OutsideDataWarning)  # half of the line is far from the rows, on purpose
    (X, y), (X_test, y_test) = rows(160, seed=0), rows(2000, seed=1)
    line = np.linspace(-4, 4, 400)
    figure, grid = plt.subplots(2, 4, figsize=(14, 6), sharex=True, sharey=True, layout="constrained")
    print(f"{'':14} {'NLL':>7} {'coverage of 90 %':>17} {'std in the gap':>15} {'std outside':>12} {'seconds':>8}")
    for axes, (name, model) in zip(grid.flat, METHODS.items(), strict=True):
        start = time.perf_counter()
        model.set_params(random_state=0).fit(X, y)
        seconds = time.perf_counter() - start
        dist, (gap, outside) = model.predict_dist(X_test), model.predict_dist([[0.0], [3.5]]).std()
        covered = coverage(y_test, dist, 0.9)
        print(f"{name:14} {nll(y_test, dist):7.3f} {covered:17.3f} {gap:15.2f} {outside:12.2f} {seconds:8.1f}")
        draw(axes, name, model, line)
        axes.plot(X[:, 0], y, ".", color=INK, markersize=2)
    figure.suptitle("Mean, central 50 and 95 % intervals, training rows, and the true curve (dashed)")
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main(*sys.argv[1:2])
