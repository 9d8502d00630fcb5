"""Copies of fitted regressors: frozen dataclasses of arrays, which predict and can be stored in files.

``bdkn.ensemble.scikit_learn`` copies estimators into these classes. ``CopiedModel`` is the base class of all models.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import issparse
from scipy.spatial.distance import cdist
from sklearn.utils import check_array

from bdkn.blocks import LARGE_CELLS, row_slices, rows_within
from bdkn.errors import InvalidParameterError, ModelFileError
from bdkn.lazy import lazy
from bdkn.storage.fields import (
    Choice,
    Either,
    Instance,
    Maybe,
    Named,
    NonNegative,
    Number,
    flags,
    floats,
    integers,
    must,
    stored,
)
from bdkn.threads import run_on_threads
from bdkn.typing import BoolArray, FloatArray

Ints = NDArray[np.int32]

MeanStd = tuple[FloatArray, FloatArray | None]
"""Predictions of a model: means, and standard deviations or None if the model has none."""

ROWS_PER_BLOCK = 16384
"""Number of rows that one tree predicts before the next tree; large, so that a tree is read from memory few times."""

MAX_NODES, MAX_COLUMNS = 2**31 - 1, 2**29 - 1
"""Maximum number of nodes of all trees, and of columns: compiled code stores a node in 32 bits, a column in 30."""

MAX_CATEGORIES = 256
"""Maximum number of categories of a column: a categorical split of a tree stores one bit per category."""

OUTPUT_FUNCTIONS: Mapping[str, Callable[[FloatArray], FloatArray]] = {
    "identity": lambda values: values,
    **{
        function.__name__: function
        for function in (np.exp, np.expm1, np.log, np.log1p, np.sqrt, np.square, np.cbrt, np.sinh, np.arcsinh)
    },
}
"""Functions that can map a model's output to the prediction, such as inverse links, by their name in files."""

Count = Annotated[int, Number(low=1, high=MAX_COLUMNS)]


class CopiedModel:
    """Base class of copied regressors; ``_by_column`` is the name of an array field that has as many columns as X."""

    _by_column: ClassVar[str]

    @property
    def n_features(self) -> int | None:
        """Number of columns of X, which must have the order of the fit; None if the model itself checks X."""
        return int(getattr(self, self._by_column).shape[-1])

    def predict(self, X: Any) -> FloatArray:
        """Return the predictions (n,) for the rows of X, an array, data frame or sparse matrix, in double precision."""
        return self.predict_mean_std(X, with_std=False)[0]

    def predict_mean_std(self, X: Any, with_std: bool = True) -> MeanStd:
        """Return predictions (n,) and their standard deviations (n,); the latter are None if the model has none."""
        if not issparse(X):
            return self._compute(X, with_std)
        rows = X.tocsr()
        parts = [self._compute(rows[block].toarray(), with_std) for block in _blocks(*rows.shape)]
        stds = [std for _, std in parts if std is not None]
        return np.concatenate([mean for mean, _ in parts]), np.concatenate(stds) if stds else None

    def _compute(self, X: Any, with_std: bool) -> MeanStd:
        raise NotImplementedError

    def _read(self, X: Any, *, finite: bool | str = True, single: bool = False) -> FloatArray:
        """Return X as a checked float64 array; ``check_array`` receives ``finite``; ``single`` rounds to float32."""
        if finite is False and type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.flags.c_contiguous:
            table = X  # most often checked before, by the model that contains this one
        else:
            table = check_array(X, dtype=np.float32 if single else np.float64, order="C", ensure_all_finite=finite)
        if table.shape[1] != self.n_features:
            raise InvalidParameterError(
                f"X must have {self.n_features} columns, as in fit; got {table.shape[1]}: select the columns of fit"
            )
        return np.asarray(table, dtype=np.float64)


def _blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Return slices of rows that divide a dense matrix of this shape into blocks of limited memory."""
    return row_slices(n_rows, rows_within(LARGE_CELLS, n_columns))


@stored
@dataclass(frozen=True, eq=False)
class GaussianWeights:
    """Posterior of a Bayesian linear model: covariance of the weights of centered ``columns``, noise variance."""

    columns: Annotated[NDArray[np.int64], integers("q", types=("i8",))]
    center: Annotated[FloatArray, floats("q")]
    covariance: Annotated[FloatArray, floats("q", "q")]
    noise_variance: NonNegative
    may_be_empty: ClassVar = ("q",)


@stored
@dataclass(frozen=True, eq=False)
class Linear(CopiedModel):
    """Copy of a linear model; it predicts standard deviations if it has a posterior of the weights."""

    coefficients: Annotated[FloatArray, floats("p")]
    intercept: float
    posterior: GaussianWeights | None = None
    _by_column = "coefficients"

    def check(self) -> None:
        """Raise unless the posterior refers only to columns that exist."""
        last = len(self.coefficients) - 1
        must(self.posterior is None or (self.posterior.columns <= last).all(), f"columns must be from 0 to {last}")

    def _compute(self, X: Any, with_std: bool) -> MeanStd:
        table = self._read(X)
        mean = table @ self.coefficients + self.intercept
        if not with_std or self.posterior is None:
            return mean, None
        centered = table[:, self.posterior.columns] - self.posterior.center
        variance = np.maximum(((centered @ self.posterior.covariance) * centered).sum(axis=1), 0.0)
        return mean, np.sqrt(variance + self.posterior.noise_variance)


# Trees


def check_nodes(feature: Ints, right: Ints, roots: Ints) -> None:
    """Raise unless every path from the root of a tree ends in a leaf of this tree.

    The left child of a node is the next node. ``feature`` (n,) is negative in a leaf, ``right`` (n,) has the numbers of
    the right children, ``roots`` has the numbers of the roots.
    """
    n = len(feature)
    must(roots[0] == 0 and (np.diff(roots) > 0).all() and roots[-1] < n, "roots must be nodes in order")
    ends = np.repeat(np.append(roots[1:], n), np.diff(np.append(roots, n)))
    is_inside = (np.arange(1, n + 1) < right) & (right < ends)
    must((is_inside | (feature < 0)).all(), "children must follow their node, inside of its tree")


@stored
@dataclass(frozen=True, eq=False)
class Trees(CopiedModel):
    """Sum or average of regression trees, plus ``base``.

    Nodes of all trees follow one another in depth-first order: the left child of a node is the next node. At a leaf,
    ``feature`` is -1 and ``number`` the value. At a split, values up to the threshold ``number`` go left, as do missing
    values if ``missing_left``. ``categories[k]`` are the sorted values of column ``categorical[k]``; at its splits,
    ``number`` is -1 minus the row of ``bitsets`` in which bit c is set if category c goes left. If ``single``, values
    of X are rounded to single precision, as by scikit-learn's forests, and must not be infinite.
    """

    n_columns: Count
    feature: Annotated[Ints, integers("N", types=("i4",), low=-1)]
    number: Annotated[FloatArray, floats("N", finite=False)]
    right: Annotated[Ints, integers("N", types=("i4",))]
    missing_left: Annotated[BoolArray, flags("N")]
    roots: Annotated[Ints, integers("T", types=("i4",))]
    base: float = 0.0
    average: bool = False
    single: bool = False
    allow_nan: bool = False
    categorical: Annotated[Ints, integers("c", types=("i4",))] = field(
        default_factory=lambda: np.empty(0, dtype=np.int32)
    )
    categories: tuple[Annotated[FloatArray, floats("*")], ...] = ()
    bitsets: Annotated[NDArray[np.uint8], integers("*", MAX_CATEGORIES // 8, types=("u1",))] = field(
        default_factory=lambda: np.empty((0, MAX_CATEGORIES // 8), dtype=np.uint8)
    )
    may_be_empty: ClassVar = ("c",)

    def check(self) -> None:
        """Raise unless all indices are valid and every path ends at a leaf: compiled code does not check this."""
        n, is_split = len(self.feature), self.feature >= 0
        must(n <= MAX_NODES, f"must have at most {MAX_NODES} nodes; got {n}")
        check_nodes(self.feature, self.right, self.roots)
        must((self.feature < self.n_columns).all(), f"features must be from 0 to {self.n_columns - 1}")
        must(np.isfinite(self.number[~is_split]).all(), "values of leaves must be finite")
        must(not np.isnan(self.number).any(), "thresholds must be numbers")
        columns = self.categorical
        is_once = (columns < self.n_columns).all() and len(np.unique(columns)) == len(columns)
        must(is_once, "a column is categorical once")
        must(len(self.categories) == len(columns), "each categorical column must have categories")
        for values in self.categories:
            must(len(values) <= MAX_CATEGORIES, f"must have at most {MAX_CATEGORIES} categories; got {len(values)}")
            must((np.diff(values) > 0.0).all(), "categories must be sorted")
        rows = -1.0 - self.number[is_split & np.isin(self.feature, columns)]
        must(np.isin(rows, np.arange(len(self.bitsets))).all(), "each categorical split must have a bit set")

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return self.n_columns

    @lazy
    def _nodes(self) -> tuple[NDArray[Any], Ints, NDArray[np.uint8]]:
        """Arrays for the compiled prediction: nodes as records, numbers of roots, and bit sets of categories."""
        from bdkn.kernels.trees import CATEGORICAL, MISSING_LEFT, NODE

        self.check()
        is_categorical = np.isin(self.feature, self.categorical)
        code = 4 * self.feature + MISSING_LEFT * self.missing_left + CATEGORICAL * is_categorical
        nodes = np.empty(len(self.feature), dtype=NODE)
        nodes["number"], nodes["right"], nodes["code"] = self.number, self.right, np.where(self.feature < 0, -1, code)
        return nodes, self.roots.copy(), self.bitsets.copy()

    def _compute(self, X: Any, with_std: bool) -> MeanStd:
        from bdkn.kernels.trees import add_leaf_values

        finite = ("allow-nan" if self.allow_nan else True) if self.single else not self.allow_nan
        table = self._read(X, finite=finite, single=self.single)
        if len(self.categorical):
            table = table.copy()
        for column, values in zip(self.categorical, self.categories, strict=True):  # unknown categories are missing
            place = np.searchsorted(values, table[:, column])
            is_known = np.append(values, np.nan)[place] == table[:, column]
            table[:, column] = np.where(is_known, place, np.nan)
        total = np.full(len(table), self.base)

        def add(start: int) -> None:
            block = slice(start, start + ROWS_PER_BLOCK)
            add_leaf_values(*self._nodes, np.require(table[block], requirements="W"), total[block])

        run_on_threads(add, range(0, len(table), ROWS_PER_BLOCK))
        return total / len(self.roots) if self.average else total, None


# Kernels


KERNELS: Mapping[str, tuple[str, ...]] = {
    "ConstantKernel": ("constant_value",),
    "WhiteKernel": ("noise_level",),
    "DotProduct": ("sigma_0",),
    "RBF": ("length_scale",),
    "Matern": ("nu", "length_scale"),
    "RationalQuadratic": ("alpha", "length_scale"),
    "ExpSineSquared": ("periodicity", "length_scale"),
    "Exponentiation": ("exponent", "kernel"),
    "Sum": ("k1", "k2"),
    "Product": ("k1", "k2"),
    "linear": (),
    "rbf": ("_gamma",),
    "sigmoid": ("_gamma", "coef0"),
    "poly": ("_gamma", "degree", "coef0"),
}
"""Parameter names of each kernel that can be copied. A key is a kernel's class in scikit-learn (Gaussian processes)
or a value of the parameter ``kernel`` (support vector machines). A length scale may be a vector."""

KERNEL_PARTS = ("kernel", "k1", "k2")
"""Names of kernel parameters that are kernels themselves, such as the two kernels of a sum."""

_OF_SUPPORT_VECTORS: Mapping[str, Callable[..., FloatArray]] = {
    "linear": lambda rows, vectors: rows @ vectors.T,
    "rbf": lambda rows, vectors, gamma: np.exp(-gamma * cdist(rows, vectors, "sqeuclidean")),
    "sigmoid": lambda rows, vectors, gamma, coef0: np.tanh(gamma * (rows @ vectors.T) + coef0),
    "poly": lambda rows, vectors, gamma, degree, coef0: (gamma * (rows @ vectors.T) + coef0) ** degree,
}


@stored
@dataclass(frozen=True, eq=False)
class Kernel:
    """Kernel (covariance function): values of parameters in the order of ``KERNELS``, and nested kernels as parts."""

    name: Annotated[str, Choice(tuple(KERNELS))]
    values: Annotated[FloatArray, floats("*", finite=False)]
    parts: tuple[Kernel, ...] = ()

    def check(self) -> None:
        """Raise unless all parameters have valid values; only ``nu`` of a Matérn kernel may be infinite."""
        n, names = len(self.values), self.names
        has_scale = "length_scale" in names
        must(n == len(names) or (n > len(names) and has_scale), f"must have {len(names)} values; got {n}")
        must(np.isfinite(self.values[self.name == "Matern" :]).all(), "values must be finite")
        must(not has_scale or (self.values > 0.0).all(), "values must be above zero")
        must((self.values[: n - ("coef0" in names)] >= 0.0).all(), "values must not be below zero")
        must(len(self.parts) == len(KERNELS[self.name]) - len(names), "must have all parts")
        must(not any(part.name in _OF_SUPPORT_VECTORS for part in self.parts), "parts must be of Gaussian processes")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kernel's parameters that are numbers, not kernels."""
        return tuple(name for name in KERNELS[self.name] if name not in KERNEL_PARTS)

    def length_scales(self) -> set[int]:
        """Return the numbers of length scales (one, or one per column) that the kernel and its nested kernels have."""
        own = {len(self.values) - len(self.names) + 1} if "length_scale" in self.names else set()
        return own.union(*(part.length_scales() for part in self.parts))

    def make(self) -> Callable[..., FloatArray]:
        """Return the kernel as a function of two tables of rows: an object of scikit-learn, or a plain function."""
        from sklearn.gaussian_process import kernels

        names, values = self.names, self.values.tolist()
        if self.name in _OF_SUPPORT_VECTORS:
            return lambda rows, vectors: _OF_SUPPORT_VECTORS[self.name](rows, vectors, *values)
        arguments = dict(zip(names, values, strict=False))
        if len(values) > len(names):
            arguments["length_scale"] = np.array(values[len(names) - 1 :])
        parts = zip(KERNELS[self.name][len(names) :], self.parts, strict=True)
        made: Callable[..., FloatArray] = getattr(kernels, self.name)(
            **arguments, **{name: part.make() for name, part in parts}
        )
        return made


@stored
@dataclass(frozen=True, eq=False)
class KernelModel(CopiedModel):
    """Copy of a Gaussian process or a support vector machine.

    It predicts ``scale`` times the sum of ``weights`` times kernels with the rows ``X``, plus ``offset``. ``X`` are the
    support vectors, or the training rows of a Gaussian process; ``L`` is the Cholesky factor of their covariances.
    """

    kernel: Kernel
    X: Annotated[FloatArray, floats("n", "p")]
    weights: Annotated[FloatArray, floats("n")]
    offset: float
    scale: NonNegative = 1.0
    L: Annotated[FloatArray | None, floats("n", "n")] = None
    may_be_empty: ClassVar = ("n",)
    _by_column = "X"

    def check(self) -> None:
        """Raise unless there is one length scale or one per column, and a Gaussian process has a valid ``L``."""
        must(self.kernel.length_scales() <= {1, self.n_features}, "must have one length scale, or one for each column")
        must(
            (self.L is None) == (self.kernel.name in _OF_SUPPORT_VECTORS), "must have L, or a kernel of support vectors"
        )
        is_positive = self.L is None or (len(self.L) > 0 and (np.diag(self.L) > 0.0).all())
        must(is_positive, "the diagonal of L must be above zero")

    @lazy
    def _covariance(self) -> Any:
        return self.kernel.make()

    def _compute(self, X: Any, with_std: bool) -> MeanStd:
        table = self._read(X)
        mean, variance = np.empty(len(table)), np.empty(len(table))
        for block in _blocks(len(table), len(self.X)):
            covariance = self._covariance(table[block], self.X)
            mean[block] = self.scale * (covariance @ self.weights) + self.offset
            if with_std and self.L is not None:
                explained = solve_triangular(self.L, covariance.T, lower=True, check_finite=False)
                variance[block] = self._covariance.diag(table[block]) - np.einsum("ij,ij->j", explained, explained)
        return mean, self.scale * np.sqrt(np.maximum(variance, 0.0)) if with_std and self.L is not None else None


METRICS = ("minkowski", "euclidean", "l2", "manhattan", "cityblock", "l1", "chebyshev")
"""Distances (parameter ``metric``) of nearest-neighbour models that can be copied."""


@stored
@dataclass(frozen=True, eq=False)
class NearestNeighbors(CopiedModel):
    """Copy of a ``KNeighborsRegressor``: parameters and training rows, from which it is fitted again to predict."""

    X: Annotated[FloatArray, floats("n", "p")]
    y: Annotated[FloatArray, floats("n")]
    n_neighbors: Count
    weights: Literal["uniform", "distance"]
    metric: Annotated[str, Choice(METRICS)]
    p: Annotated[float, Number(low=1.0)]
    algorithm: Literal["auto", "ball_tree", "kd_tree", "brute"]
    leaf_size: Count
    _by_column = "X"

    def check(self) -> None:
        """Raise unless there are at least ``n_neighbors`` training rows."""
        must(self.n_neighbors <= len(self.y), f"n_neighbors must be at most {len(self.y)}; got {self.n_neighbors}")

    @lazy
    def _estimator(self) -> Any:
        from sklearn.neighbors import KNeighborsRegressor

        names = ("n_neighbors", "weights", "metric", "p", "algorithm", "leaf_size")
        return KNeighborsRegressor(**{name: getattr(self, name) for name in names}).fit(self.X, self.y)

    def _compute(self, X: Any, with_std: bool) -> MeanStd:
        return np.asarray(self._estimator.predict(self._read(X))), None


# Models of transformed columns or targets, and averages of models


@stored
@dataclass(frozen=True, eq=False)
class Scale:
    """Scaling of columns: ``(x - center) / divisor * factor + offset``, clipped to ``low`` and ``high``.

    Before the scaling, missing values are replaced by ``fill`` (None: they stay missing).
    """

    center: Annotated[FloatArray, floats("p")]
    divisor: Annotated[FloatArray, floats("p")]
    factor: Annotated[FloatArray, floats("p")]
    offset: Annotated[FloatArray, floats("p")]
    low: Annotated[float, Number(infinite=True)] = -math.inf
    high: Annotated[float, Number(infinite=True)] = math.inf
    fill: Annotated[FloatArray | None, floats("p")] = None

    def check(self) -> None:
        """Raise if a divisor is zero, or if ``low`` exceeds ``high``."""
        must((self.divisor != 0.0).all(), "divisors must not be zero")
        must(self.low <= self.high, "low must not exceed high")

    @property
    def columns(self) -> tuple[int, int]:
        """Number of input columns, and number of output columns."""
        return len(self.center), len(self.center)

    def __call__(self, table: FloatArray) -> FloatArray:
        """Return the scaled columns."""
        known = table if self.fill is None else np.where(np.isnan(table), self.fill, table)
        scaled: FloatArray = (known - self.center) / self.divisor * self.factor + self.offset
        return scaled if math.isinf(self.low) and math.isinf(self.high) else np.clip(scaled, self.low, self.high)


@stored
@dataclass(frozen=True, eq=False)
class Products:
    """Products of columns, such as polynomial features.

    Each row of ``factors`` (outputs, degree) lists the column numbers of one product; -1 stands for a factor of one.
    """

    n_columns: Count
    factors: Annotated[Ints, integers("q", "*", types=("i4",), low=-1)]

    def check(self) -> None:
        """Raise unless all factors are numbers of columns that exist."""
        must((self.factors < self.n_columns).all(), f"factors must be from 0 to {self.n_columns - 1}")

    @property
    def columns(self) -> tuple[int, int]:
        """Number of input columns, and number of output columns."""
        return self.n_columns, len(self.factors)

    def __call__(self, table: FloatArray) -> FloatArray:
        """Return the products; like scikit-learn, multiply from the last factor to the first."""
        if self.factors.shape[1] == 1 and self.factors.min() >= 0:
            return table[:, self.factors[:, 0]]
        with_one = np.column_stack([table, np.ones(len(table))])
        product = np.ones((len(table), len(self.factors)))
        for factor in self.factors.T[::-1]:
            product *= with_one[:, factor]
        return product


Transform = Scale | Products


@stored
@dataclass(frozen=True, eq=False)
class Composed(CopiedModel):
    """Copy of a pipeline: a model of transformed columns and, unless ``inverse`` is None, of a transformed target.

    ``inverse``, a function's name or a scaling, transforms predictions back; then there are no standard deviations.
    """

    model: CopiedModel
    transforms: tuple[Transform, ...] = ()
    inverse: Annotated[str | Scale | None, Either(str, Choice(tuple(OUTPUT_FUNCTIONS)), Maybe(Instance(Scale)))] = None

    def check(self) -> None:
        """Raise unless each step takes as many columns as the step before returns, and there is one target."""
        taken = [*(part.columns[0] for part in self.transforms[1:]), self.model.n_features]
        for transform, n_columns in zip(self.transforms, taken, strict=bool(self.transforms)):
            must(n_columns in (None, transform.columns[1]), "each step must take the columns of the step before")
        is_single = not isinstance(self.inverse, Scale) or self.inverse.columns == (1, 1)
        must(is_single, "the inverse must have one column")

    @property
    def n_features(self) -> int | None:
        """Number of columns of X; None if the model itself checks X."""
        return self.transforms[0].columns[0] if self.transforms else self.model.n_features

    def _compute(self, X: Any, with_std: bool) -> MeanStd:
        table = self._read(X, finite=False) if self.transforms else X  # the model checks what it receives
        for transform in self.transforms:
            table = transform(table)
        mean, std = self.model._compute(table, with_std and self.inverse is None)
        if self.inverse is None:
            return mean, std
        if isinstance(self.inverse, str):
            return OUTPUT_FUNCTIONS[self.inverse](mean), None
        return self.inverse(mean[:, None])[:, 0], None


@stored
@dataclass(frozen=True, eq=False)
class Average(CopiedModel):
    """Weighted average of the predictions of models that take the same columns."""

    models: tuple[CopiedModel, ...]
    weights: Annotated[FloatArray, floats("H", low=0.0)]

    def check(self) -> None:
        """Raise unless each model has a weight, and all take the same columns."""
        must(len(self.models) == len(self.weights), "each model must have a weight")
        must(self.weights.sum() > 0.0, "a weight must be above zero")
        must(len({model.n_features for model in self.models} - {None}) < 2, "models must take the same columns")

    @property
    def n_features(self) -> int | None:
        """Number of columns of X; None if the models themselves check X."""
        return next((n for model in self.models if (n := model.n_features)), None)

    def _compute(self, X: Any, with_std: bool) -> MeanStd:
        total: FloatArray = np.zeros(1)
        for weight, model in zip(self.weights, self.models, strict=True):
            total = total + weight * model._compute(X, with_std=False)[0]
        return total / self.weights.sum(), None


# Estimators of a user's own class


@runtime_checkable
class StorableEstimator(Protocol):
    """A regressor of a user's own class that can be stored in a model file: it has two methods besides ``predict``.

    A file contains the name of the class and the arrays, but no code. To load the file, give the class itself, as in
    ``bdkn.load(path, member_classes=[MyRegressor])``: nothing is imported by its name.
    """

    def predict(self, X: Any) -> Any:
        """Return one prediction per row of X."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that ``predict`` needs as a dict of arrays, which contain numbers or booleans."""

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Return the fitted estimator made from arrays; these come from a file: check them before use."""


_TYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
"""Data types, by NumPy's codes, that the arrays of a user's own estimator may have."""


@stored
@dataclass(frozen=True, eq=False)
class UserModel(CopiedModel):
    """Copy of a fitted estimator of a user's own class: the name of the class, and arrays.

    After loading, ``estimator`` is None until ``make_estimators`` makes it from the class and the arrays.
    """

    class_name: str
    arrays: Annotated[dict[str, NDArray[Any]], Named(floats(..., types=_TYPES, finite=False))]
    estimator: Any = field(default=None, init=False, repr=False)

    @property
    def n_features(self) -> None:
        """Number of columns: None, as the estimator itself checks X."""
        return

    @classmethod
    def of(cls, estimator: StorableEstimator) -> UserModel:
        """Return the copy of an estimator; raise unless ``to_arrays`` returns arrays of numbers or booleans."""
        name = type(estimator).__name__
        try:
            arrays = estimator.to_arrays()
        except Exception as error:
            raise InvalidParameterError(
                f"{name}.to_arrays must return the arrays of a fitted estimator; it raised {error!r:.200}: correct it, "
                "or remove it, so that the member is not stored"
            ) from error
        if not isinstance(arrays, dict) or not all(isinstance(key, str) for key in arrays):
            raise InvalidParameterError(
                f"{name}.to_arrays must return a dict of arrays by name; got a {type(arrays).__name__}"
            )
        for key, array in arrays.items():
            if not (isinstance(array, np.ndarray) and array.dtype.str[1:] in _TYPES):
                raise InvalidParameterError(
                    f"{name}.to_arrays must return arrays of numbers or truth values; {key!r} is "
                    f"{getattr(array, 'dtype', type(array).__name__)}: convert it, as with numpy.asarray"
                )
        return cls(name, {key: array.copy() for key, array in arrays.items()}).made_by([type(estimator)])

    def made_by(self, member_classes: Iterable[type]) -> UserModel:
        """Return this model with its estimator, made from the arrays by the class with the stored name."""
        found: list[Any] = [kind for kind in member_classes if kind.__name__ == self.class_name]
        if len(found) != 1:
            raise ModelFileError(
                f"the model has a member of the class {self.class_name!r:.80}, which must be given once to be made "
                f"again; got {len(found)} classes of this name: import it, and give member_classes=[{self.class_name}]"
            )
        made = UserModel(self.class_name, self.arrays)
        try:
            estimator = found[0].from_arrays({key: array.copy() for key, array in self.arrays.items()})
        except Exception as error:
            raise ModelFileError(
                f"{self.class_name}.from_arrays must make an estimator from the arrays of to_arrays; it raised "
                f"{error!r:.200}: try from_arrays(to_arrays()) on a fitted one"
            ) from error
        object.__setattr__(made, "estimator", estimator)
        return made

    def predict_mean_std(self, X: Any, with_std: bool = True) -> MeanStd:
        """Return predictions and standard deviations of the estimator, which gets X unchanged, also if it is sparse."""
        return self._compute(X, with_std)

    def _compute(self, X: Any, with_std: bool) -> MeanStd:
        if self.estimator is None:
            raise InvalidParameterError(
                f"a member of the class {self.class_name!r} was loaded without its class: load with "
                f"member_classes=[{self.class_name}]"
            )
        if with_std and "return_std" in inspect.signature(self.estimator.predict).parameters:
            mean, std = self.estimator.predict(X, return_std=True)
            return np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64)
        return np.asarray(self.estimator.predict(X), dtype=np.float64), None


def make_estimators(model: CopiedModel, member_classes: Sequence[type]) -> CopiedModel:
    """Return a loaded model with estimators of the user's own classes made from arrays; raise if a class is missing."""
    if isinstance(model, UserModel):
        return model.made_by(member_classes)
    if isinstance(model, Composed):
        return replace(model, model=make_estimators(model.model, member_classes))
    if isinstance(model, Average):
        return replace(model, models=tuple(make_estimators(part, member_classes) for part in model.models))
    return model
