"""Our predictives pass the public conformance suite, and it notices what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

from bdkn.predictive import Gaussian, GaussianMixture, MatrixT, MultivariateT, StudentT, StudentTMixture, VectorT
from bdkn.testing import check_predictive

LOC, SCALE = np.array([0.0, 10.0, -3.0]), np.array([1.0, 2.0, 0.1])
SHAPE = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.3], [0.0, 0.3, 4.0]])
PREDICTIVES = {
    "Gaussian": Gaussian(LOC, SCALE),
    "Gaussian with a point mass": Gaussian(LOC, [1.0, 0.0, 2.0]),
    "point masses": Gaussian(LOC, 0.0),
    "Student-t": StudentT([2.5, 5.0, 1e9], LOC, SCALE),
    "Student-t without a variance": StudentT([0.9, 1.0, 2.0], LOC, SCALE),
    "Student-t with a point mass": StudentT(4.0, LOC, [0.0, 1.0, 2.0]),
    "Cauchy": StudentT(1.0, LOC, SCALE),
    "mixture": GaussianMixture(np.column_stack([LOC, LOC + 1.0]), np.column_stack([SCALE, 3 * SCALE]), [0.3, 0.7]),
    "Student-t and Gaussians": StudentTMixture(
        4.0, LOC, SCALE, 0.5, [[-1.0, 2.0]] * 3, [[0.1, 1.0]] * 3, [[0.2, 0.3]] * 3
    ),
    "mixture far apart": GaussianMixture([[0.0, 8.0], [1.0, -9.0]], 1.0),
    "small units": StudentT(5.0, 1e-60 * LOC, 1e-60 * SCALE),
    "large units": Gaussian(1e60 * LOC, 1e60 * SCALE),
    "rows of a joint": MultivariateT(5.0, LOC, SHAPE).marginal(),
    "a target of rows": VectorT(5.0, np.column_stack([LOC, LOC]), np.broadcast_to(SHAPE[:2, :2], (3, 2, 2))).target(1),
    "a target of a matrix": MatrixT(7.0, np.column_stack([LOC, LOC]), SHAPE, SHAPE[:2, :2]).marginal().target(0),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("dist", PREDICTIVES.values(), ids=PREDICTIVES)
def test_ours_conform(dist):
    check_predictive(dist)


def mistaken(name, function):
    """Return a Gaussian one of whose methods is wrong."""
    return type("Wrong", (Gaussian,), {name: function})(LOC, SCALE)


@pytest.mark.parametrize(
    ("name", "function", "message"),
    [
        ("_logpdf", lambda self, y: Gaussian._logpdf(self, y) + 0.01, "the integral of the density"),
        ("_cdf", lambda self, y: Gaussian._cdf(self, y) ** 1.01, r"cdf\(ppf\(q\)\) is q"),
        ("_ppf", lambda self, q: Gaussian._ppf(self, q[::-1]), "quantiles"),
        ("var", lambda self: 1.1 * self.scale**2, "the variance is that of the quantiles"),
        ("mean", lambda self: self.loc + 0.1 * self.scale, "the mean is that of the quantiles"),
        ("_crps", lambda self, y: 1.05 * Gaussian._crps(self, y), "CRPS"),
        ("_crps", lambda self, y: 0.05 + Gaussian._crps(self, y), "CRPS"),
        ("_rvs", lambda self, size, g: self.loc[:, None] + g.uniform(-1, 1, (len(self), size)), "Kolmogorov"),
        ("_rvs", lambda self, size, g: self.loc[:, None] + self.scale[:, None] * g.normal(size=size), "independent"),
        ("rvs", lambda self, size=1, random_state=None: np.zeros((size, len(self))), r"rvs\(0\) is \(n, 0\)"),
        ("affine", lambda self, scale, shift: Gaussian(scale * self.loc + shift, scale * self.scale), "same class"),
        ("median", lambda self: self.loc + self.scale, "median"),
        ("interval", lambda self, coverage=0.9: tuple(self.ppf([0.1, 0.95]).T), "coverage is a probability"),
        ("std", lambda self: 2.0 * self.scale, "standard deviation|square of std"),
    ],
)
def test_mistakes_are_noticed(name, function, message):
    with pytest.raises(AssertionError, match=message):
        check_predictive(mistaken(name, function))


def test_one_row_is_too_few():
    with pytest.raises(AssertionError, match="at least two rows"):
        check_predictive(Gaussian([0.0], 1.0))
