"""The command ``bdkn compare``, which cross-validates several methods on one table."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from bdkn.cli.fit import EFFORTS, Estimate, Training
from bdkn.cli.inputs import Roles, read_labelled
from bdkn.cli.terminal import (
    AsJson,
    Coverage,
    Data,
    Drop,
    Features,
    Groups,
    Quiet,
    Screen,
    Seed,
    Target,
    Time,
    names_of,
    number,
    printable,
)
from bdkn.errors import InvalidParameterError, check_choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bdkn.predictive import Gaussian
    from bdkn.typing import FloatArray


Moments = Callable[[Any, Any], tuple[Any, Any]]
"""Function that takes a fitted model and rows, and returns predicted means and standard deviations."""

Stop = Callable[[Any, Any], dict[str, Any]]
"""Function that takes held-out rows and targets, and returns the arguments of ``fit`` for early stopping."""

_MIN_ROWS = 50
"""Minimum number of training rows for early stopping, which holds out a tenth of them."""

_FEW_VALUES = 12
"""Maximum number of values of a column that is one-hot encoded; columns with more values are target-encoded."""

_STANDARD_INTERVAL = 2 * 1.6448536269514722
"""Width of the 90 % interval of a standard normal distribution."""

_MIN_STD = 1e-9
"""Minimum standard deviation of a predicted Gaussian, in units of the target."""

_FAR = 5.0
"""Distance above the median score from which a method is drawn as an arrow, in units of median minus best score."""


class EncodedPeer:
    """A regressor of another library, with an encoder of the columns; it predicts a Gaussian for each row."""

    def __init__(self, model: Any, moments: Moments, stop: Stop | None = None) -> None:
        self.model, self.moments, self.stop = model, moments, stop

    def fit(self, X: Any, y: FloatArray) -> Self:
        """Fit the encoder and the model to training rows; for early stopping, a tenth of the rows is held out."""
        frame = plain_frame(X)
        self.encoder = usual_encoder(frame)
        inputs, validation = self.encoder.fit_transform(frame, y), {}
        if self.stop is not None and len(y) >= _MIN_ROWS:
            from sklearn.model_selection import train_test_split

            inputs, held_out_inputs, y, held_out_y = train_test_split(inputs, y, test_size=0.1, random_state=0)
            validation = self.stop(held_out_inputs, held_out_y)
        self.model.fit(inputs, y, **validation)
        return self

    def predict_dist(self, X: Any) -> Gaussian:
        """Return the predicted Gaussian of each row."""
        import numpy as np

        from bdkn.predictive import Gaussian

        mean, std = self.moments(self.model, self.encoder.transform(plain_frame(X)))
        return Gaussian(np.asarray(mean), np.maximum(np.asarray(std), _MIN_STD))


class QuantileBoosting:
    """Boosted trees of scikit-learn: one model for the mean, and one for each limit of the 90 % interval."""

    def __init__(self, seed: int) -> None:
        from sklearn.ensemble import HistGradientBoostingRegressor as Boosting

        self.mean = Boosting(random_state=seed)
        self.ends = [Boosting(loss="quantile", quantile=level, random_state=seed) for level in (0.05, 0.95)]

    def fit(self, X: Any, y: FloatArray) -> Self:
        """Fit the three models: for the mean, the lower limit and the upper limit."""
        for model in (self.mean, *self.ends):
            model.fit(X, y)
        return self

    def moments(self, X: Any) -> tuple[Any, Any]:
        """Return means, and standard deviations of Gaussians whose 90 % intervals have the predicted widths."""
        lower, upper = (model.predict(X) for model in self.ends)
        return self.mean.predict(X), (upper - lower) / _STANDARD_INTERVAL


class TargetMean:
    """A baseline: the same Gaussian for every row, with mean and standard deviation of the training targets."""

    def fit(self, X: Any, y: FloatArray) -> Self:
        """Compute the mean and the standard deviation of ``y``; ``X`` is ignored."""
        import numpy as np

        self.mean, self.std = float(np.mean(y)), float(np.std(y))
        return self

    def predict_dist(self, X: Any) -> Gaussian:
        """Return the same Gaussian for each row of ``X``."""
        import numpy as np

        from bdkn.predictive import Gaussian

        return Gaussian(np.full(len(X), self.mean), self.std)


def plain_frame(X: Any) -> Any:
    """Convert a data frame to columns of numbers and of text; dates and booleans become numbers."""
    import numpy as np
    from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

    frame = X.copy()
    for name, column in X.items():
        if is_datetime64_any_dtype(column.dtype):
            moments = column.to_numpy().astype("datetime64[us]")
            frame[name] = np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 86.4e9)
        elif is_bool_dtype(column.dtype) or is_numeric_dtype(column.dtype):
            frame[name] = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            frame[name] = column.astype(object).where(column.notna(), "missing").astype(str)
    return frame


def usual_encoder(frame: Any) -> Any:
    """Return an encoder that scales numbers, one-hot encodes text with few values, and target-encodes other text."""
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder

    numbers = [name for name in frame if frame[name].dtype.kind == "f"]
    texts = [name for name in frame if name not in numbers]
    small = [name for name in texts if frame[name].nunique() <= _FEW_VALUES]
    large = [name for name in texts if name not in small]
    scaled = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler())
    hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    targets = TargetEncoder(target_type="continuous", random_state=0)
    parts = [("numbers", scaled, numbers), ("small", hot, small), ("large", targets, large)]
    return ColumnTransformer([part for part in parts if part[2]])


def _own(name: str) -> Callable[[int, str], Any]:
    """Return a function that makes a regressor of this library, given a seed and an effort."""
    return lambda seed, effort: Training(name, effort, seed=seed).regressor()


def _ngboost(seed: int, effort: str) -> Any:
    from ngboost import NGBRegressor

    def moments(model: Any, X: Any) -> tuple[Any, Any]:
        found = model.pred_dist(X)
        return found.loc, found.scale

    def stop(X: Any, y: Any) -> dict[str, Any]:
        return {"X_val": X, "Y_val": y, "early_stopping_rounds": 50}

    return EncodedPeer(NGBRegressor(n_estimators=1000, verbose=False, random_state=seed), moments, stop)


def _catboost(seed: int, effort: str) -> Any:
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", random_seed=seed, verbose=False, allow_writing_files=False
    )

    def moments(model: Any, X: Any) -> tuple[Any, Any]:
        mean, variance = model.predict(X).T
        return mean, variance**0.5

    def stop(X: Any, y: Any) -> dict[str, Any]:
        return {"eval_set": (X, y), "early_stopping_rounds": 50}

    return EncodedPeer(model, moments, stop)


def _process(seed: int, effort: str) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF(2.0) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)
    return EncodedPeer(model, lambda model, X: model.predict(X, return_std=True))


def _ridge(seed: int, effort: str) -> Any:
    from sklearn.linear_model import BayesianRidge

    return EncodedPeer(BayesianRidge(), lambda model, X: model.predict(X, return_std=True))


@dataclass(frozen=True)
class Method:
    """A method to compare: its title, a function that makes it, its package, and its maximum number of rows."""

    title: str
    make: Callable[[int, str], Any]
    package: str = "bdkn"
    most_rows: int | None = None


METHODS = {
    "bdkn": Method("BDKN", _own("bdkn")),
    "stack": Method("Bayesian stack", _own("stack")),
    "deep-ensemble": Method("Deep ensemble", _own("deep-ensemble")),
    "catboost": Method("CatBoost", _catboost, "catboost"),
    "ngboost": Method("NGBoost", _ngboost, "ngboost"),
    "boosting": Method(
        "HistGradientBoosting, quantiles",
        lambda seed, effort: EncodedPeer(QuantileBoosting(seed), QuantileBoosting.moments),
        "sklearn",
    ),
    "process": Method("Gaussian process", _process, "sklearn", most_rows=2000),
    "ridge": Method("Bayesian ridge", _ridge, "sklearn"),
    "mean": Method("Mean of the target", lambda seed, effort: TargetMean()),
}


def chosen_methods(names: tuple[str, ...], n_rows: int) -> list[str]:
    """Return the methods to compare: all that can be used, if none are named. Raise if a named one cannot be used."""
    installed = [name for name, method in METHODS.items() if find_spec(method.package) is not None]
    for name in names:
        check_choice("each of --methods", name, METHODS)
        if name not in installed:
            raise InvalidParameterError(f"method {name!r} needs {METHODS[name].package}; run: pip install {name}")
    limits = {name: METHODS[name].most_rows for name in installed}
    return list(names) or [name for name, most in limits.items() if most is None or n_rows <= most]


TITLES = {"nll": "NLL", "crps": "CRPS", "rmse": "RMSE", "coverage": "coverage", "seconds": "seconds"}
"""Titles of the metrics in the table and in the figure."""


def draw_comparison(found: Sequence[dict[str, Any]], target: str, coverage: float) -> Figure:
    """Draw one panel per metric, with a large dot for the mean score of each method and small dots for its folds.

    A mean far beyond the others is drawn as an arrow with its number. The best mean has another colour.
    """
    from matplotlib.figure import Figure

    from bdkn.plots.display import BLUE, GREY, PALE, VERMILION, label_axes, literal, prepare_axes

    metrics = [metric for metric in TITLES if metric != "seconds"]
    figure = Figure(figsize=(3.0 * len(metrics) + 1.5, 0.42 * len(found) + 1.4), layout="constrained")
    for metric, ax in zip(metrics, figure.subplots(1, len(metrics), sharey=True), strict=True):
        means = [one[metric] for one in found]
        limit, best = _limit(means), min(means) if metric != "coverage" else None
        prepare_axes(ax)
        for place, one in enumerate(reversed(found)):
            mean, colour = one[metric], VERMILION if one[metric] == best else BLUE
            ax.axhline(place, color=PALE, lw=0.8, zorder=0)
            if mean > limit:
                ax.plot(limit, place, ">", ms=8, color=colour)
                ax.annotate(f"{mean:.3g}", (limit, place), (-8, -3), textcoords="offset points", ha="right", fontsize=8)
                continue
            near = [score for score in one["folds"][metric] if score <= limit]
            ax.plot(near, [place] * len(near), "o", ms=3.5, color=GREY, alpha=0.6)
            ax.plot(mean, place, "o", ms=8, color=colour)
        if metric == "coverage":
            ax.axvline(coverage, color=GREY, lw=1, ls="--")
        label = f"{coverage:.0%} coverage" if metric == "coverage" else f"{TITLES[metric]} (smaller is better)"
        label_axes(ax, label, "", None)
        ax.set_yticks(range(len(found)), [METHODS[one["method"]].title for one in reversed(found)])
    folds = len(found[0]["folds"]["crps"])
    title = f"Predictions of {literal(printable(target))}, {folds} folds held out in turn"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return figure


def _limit(means: list[float]) -> float:
    """Return the upper limit of a metric's axis; values far above it would hide the differences of others."""
    ordered = sorted(means)
    middle = ordered[len(ordered) // 2]
    near = [mean for mean in ordered if mean <= middle + _FAR * (middle - ordered[0])]
    return near[-1] if len(near) == len(ordered) else near[-1] + 0.1 * (near[-1] - ordered[0])


def compare(
    data: Data,
    target: Target,
    methods: Annotated[str | None, typer.Option(help="Methods: a,b,c. All that are installed if not given.")] = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds.")] = 5,
    features: Features = None,
    drop: Drop = None,
    groups: Groups = None,
    time: Time = None,
    effort: Annotated[str, typer.Option(help="fast, balanced or best; for the methods of bdkn.")] = "balanced",
    coverage: Coverage = 0.9,
    picture: Annotated[Path | None, typer.Option(help="Picture to write: .png, .svg or .pdf.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compare the methods of bdkn, and of other libraries that are installed, on a table.

    All methods are fitted with their defaults and predict the held-out rows of the same folds. For other libraries,
    columns are encoded as usual. CatBoost and NGBoost stop early, judged by a tenth of the training rows. The method
    with the best CRPS comes first.

    Methods: bdkn, stack, deep-ensemble, catboost, ngboost, boosting, process, ridge, mean.

    Example:

        bdkn compare flats.csv --target price --methods bdkn,boosting,ridge --picture compared.png
    """
    from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

    from bdkn.table_files import check_output

    screen = Screen(json=as_json, quiet=quiet)
    check_choice("--effort", effort, EFFORTS)
    if picture is not None:
        check_choice("the extension of a picture's name", picture.suffix, (".png", ".svg", ".pdf"))
        check_output(picture, data)
    chosen_methods(names_of(methods), 0)
    rows = read_labelled(data, Roles(target, names_of(features), names_of(drop), groups, time), screen)
    if len(rows) < 2 * folds:
        raise InvalidParameterError(f"{folds} folds need at least {2 * folds} rows with a target; got {len(rows)}")
    splitter = KFold(folds, shuffle=True, random_state=seed) if groups is None else GroupKFold(folds)
    splits = list((splitter if time is None else TimeSeriesSplit(folds)).split(rows.X, groups=rows.groups))
    found: list[dict[str, Any]] = []
    with screen.noting_warnings():
        for name in chosen_methods(names_of(methods), len(rows)):
            screen.progress(f"{METHODS[name].title}: fitting {len(splits)} folds")
            method, scores = METHODS[name], {metric: list[float]() for metric in TITLES}
            for train, test in ((rows[train], rows[test]) for train, test in splits):
                start = clock.perf_counter()
                model = method.make(seed, effort)
                has_groups = method.package == "bdkn" and train.groups is not None and hasattr(model, "cv")
                model.fit(train.X, train.y, **({"groups": train.groups} if has_groups else {}))
                estimate = asdict(Estimate.of(test.y, model.predict_dist(test.X), coverage, method.title))
                estimate["seconds"] = clock.perf_counter() - start
                for metric, values in scores.items():
                    values.append(estimate[metric])
            means = {metric: sum(values) / len(values) for metric, values in scores.items()}
            found.append({"method": name, **means, "folds": scores})
    found.sort(key=lambda one: one["crps"])
    cells = [(METHODS[one["method"]].title, *(number(one[metric]) for metric in TITLES)) for one in found]
    title = f"Predictions of {target!r} for held-out rows, averages of {folds} folds"
    screen.table(title, ("method", *TITLES.values()), cells)
    if picture is not None:
        from bdkn.plots import save_figure

        figure = draw_comparison(found, target, coverage)
        save_figure(figure, picture.parent, picture.stem, [picture.suffix[1:]], dpi=100)
        screen.write(f"Picture: {picture}")
    screen.finish({"methods": found, "picture": picture and str(picture)})
