"""Transformers of the target as maps, against their own inverse; and the way to the regressor inside."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, PowerTransformer, RobustScaler, StandardScaler

from bdkn.errors import InvalidParameterError
from bdkn.metrics.estimators import Route, plain_route_of, route_of, target_maps

Y = np.linspace(0.05, 0.95, 30)[:, None] ** 2
KNOWN = {
    "nothing": FunctionTransformer(),
    "positive": FunctionTransformer(np.positive, np.positive),
    "square": FunctionTransformer(np.square, np.sqrt),
    "root": FunctionTransformer(np.sqrt, np.square),
    "log2": FunctionTransformer(np.log2, np.exp2),
    "log10": FunctionTransformer(np.log10, lambda z: 10.0**z),
    "logit": FunctionTransformer(logit, expit),
    "no units": StandardScaler(with_std=False),
    "no centre": StandardScaler(with_mean=False),
    "neither": RobustScaler(with_centering=False, with_scaling=False),
    "range": MinMaxScaler((2.0, 5.0)),
    "power": PowerTransformer(),
    "pipeline": Pipeline(
        [("a", FunctionTransformer(np.log, np.exp)), ("b", "passthrough"), ("c", None), ("d", StandardScaler())]
    ),
}


@pytest.mark.parametrize("transformer", KNOWN.values(), ids=KNOWN)
def test_maps_invert_the_transformer(transformer):
    z = transformer.fit_transform(Y)[:, 0]
    for map_ in target_maps(transformer):
        z = map_.inverse(z)
    np.testing.assert_allclose(z, Y[:, 0], rtol=1e-9)


@pytest.mark.parametrize(
    ("func", "inverse"),
    [(np.log, None), (None, np.exp), (logit, lambda z: 1.0 / (1.0 + np.exp(-z))), (np.log, lambda z: np.exp(z) + 1e-6)],
)
def test_functions_without_their_inverse_are_refused(func, inverse):
    with pytest.raises(InvalidParameterError, match="a function that is known to increase, and its inverse"):
        target_maps(SimpleNamespace(func=func, inverse_func=inverse))


class Fitted:
    """An estimator with only the given attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


LEAF = Fitted(predict_dist=lambda X: X)


def test_ways_to_the_regressor():
    assert route_of(Fitted(estimator_=LEAF), 3.0).X == 3.0
    selected = Fitted(estimator_=LEAF, transform=lambda X: X + 1.0)
    assert route_of(selected, 3.0).X == 4.0
    assert route_of(selected, rows=False).regressor is LEAF
    assert plain_route_of(selected, 3.0).X == 4.0
    transformed = Fitted(regressor_=LEAF, transformer_=FunctionTransformer(np.log, np.exp))
    assert len(route_of(transformed, 3.0).maps) == 1
    with pytest.raises(InvalidParameterError, match="predictions of a transformed target are not explained"):
        plain_route_of(transformed, 3.0)
    assert Route(LEAF, 5.0).dist() == 5.0


@pytest.mark.parametrize("name", ["regressor", "param_grid", "param_distributions"])
def test_estimators_that_are_not_fitted(name):
    with pytest.raises(InvalidParameterError, match="must be fitted to predict; got Fitted, which is not"):
        route_of(Fitted(**{name: None}))
    for only in ({"regressor_": LEAF}, {"transformer_": None}):
        with pytest.raises(InvalidParameterError, match=r"must have predict_dist\(X\)"):
            route_of(Fitted(**only))
