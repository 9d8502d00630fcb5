"""Estimators of any kind as members: checks of the parameter ``members``, cross-fitting, and default members."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn import get_config
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils import Bunch, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from bdkn.arrays import column_names, is_frame
from bdkn.data.folds import (
    HOLDOUT_FRACTION,
    N_FOLDS,
    Folds,
    OwnFolds,
    fold_generator,
    is_fold_count,
    name_key,
    seed_sequence,
)
from bdkn.data.reading import read_column
from bdkn.data.rows import Rows, take_rows
from bdkn.data.scaling import TargetScaler, fit_targets
from bdkn.data.training_data import TrainingData
from bdkn.ensemble.copied_models import MeanStd
from bdkn.ensemble.estimators import (
    EstimatorMember,
    EstimatorMembers,
    Pair,
    predict_mean_std,
)
from bdkn.ensemble.provenance import FitProvenance
from bdkn.ensemble.selection import HeldOut, finite_members
from bdkn.errors import InvalidParameterError, shown, warn_user
from bdkn.estimators.deep_ensemble import DeepEnsembleRegressor
from bdkn.estimators.fitting import CrossFit
from bdkn.model.fitted import FittedModel
from bdkn.model.target_choice import TargetSettings
from bdkn.networks import MIN_VARIANCE
from bdkn.networks.settings import Clock
from bdkn.predictive import IdentityLink
from bdkn.stages import stage
from bdkn.threads import bounded_threads
from bdkn.typing import FloatArray, IndexArray

_NOT_FINITE = "predictions for held-out rows are not finite; look at what it predicts, or drop it"

Parameters = Mapping[str, Mapping[str, Any]]
"""Type of additional arguments of ``fit``, such as sample weights, by member name; key "cv": arguments of ``split``."""

# The parameter ``members``


def check_estimators(given: list[Pair], validate_names: Callable[[list[str]], None]) -> None:
    """Raise unless ``given`` is a list of (name, estimator) pairs that can be members, with unique names."""
    pairs = isinstance(given, list) and all(isinstance(p, tuple | list) and len(p) == 2 for p in given)
    if not (pairs and given and all(isinstance(name, str) for name, _ in given)):
        raise InvalidParameterError(
            f"members must be 'networks', 'auto' or a list of (name, estimator) pairs; got {shown(given)}"
        )
    if all(isinstance(model, str) and model == "drop" for _, model in given):
        raise InvalidParameterError("members must hold one that is not 'drop'; got only such")
    for name, model in given:
        if not (isinstance(model, str) and model == "drop"):
            check_model(model, name)
    validate_names([name for name, _ in given])


def check_model(model: Any, name: str) -> None:
    """Raise unless the model can be a member: a regressor, a PyTorch module or a function."""
    if isinstance(model, type):
        raise InvalidParameterError(f"member {name!r} must be an object; got the class: write {model.__name__}()")
    if isinstance(model, str):
        raise InvalidParameterError(
            f"member {name!r} must be a regressor with fit and predict, a function, or 'drop'; got the text {model!r}: "
            "a file describes estimators and does not hold them, so give them again before another fit"
        )
    if not (hasattr(model, "predict") or callable(model)):
        raise InvalidParameterError(
            f"member {name!r} must be a regressor with fit and predict, a PyTorch module, or a function from rows to "
            f"means or to (means, standard deviations); got {model!r}"
        )
    if hasattr(model, "__sklearn_tags__") and is_classifier(model):
        raise InvalidParameterError(f"member {name!r} must predict numbers; got the classifier {model!r}")


def in_use(estimators: Any) -> list[Pair]:
    """Return the (name, estimator) pairs without those that have a text, such as "drop", as estimator."""
    pairs = estimators if isinstance(estimators, list) else []
    return [pair for pair in pairs if not isinstance(pair[1], str)]


def is_refitted(model: Any) -> bool:
    """Return whether a model is fitted anew in each fold: it has ``fit`` and is not frozen (``FrozenEstimator``)."""
    return hasattr(model, "fit") and hasattr(model, "predict") and clone(model) is not model


def accepted_inputs(pairs: list[Pair]) -> tuple[bool, bool]:
    """Return whether all estimators accept missing values, and whether all accept sparse tables."""
    inputs = [get_tags(model).input_tags for _, model in pairs if hasattr(model, "__sklearn_tags__")]
    return bool(inputs) and all(one.allow_nan for one in inputs), bool(inputs) and all(one.sparse for one in inputs)


def route_metadata(model: Any, pairs: list[Pair], cv: Any) -> MetadataRouter:
    """Return scikit-learn's metadata router: the arguments of ``fit`` that the estimators and ``cv`` request."""
    router = MetadataRouter(owner=model).add_self_request(model)
    if isinstance(cv, str):
        return router
    for name, estimator in pairs:
        if hasattr(estimator, "get_metadata_routing"):
            router.add(**{name: estimator}, method_mapping=MethodMapping().add(caller="fit", callee="fit"))
    if hasattr(cv, "get_metadata_routing"):
        router.add(cv=cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
    return router


# Cross-fitting


def cross_fit_estimators(
    params: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    groups: Any,
    metadata: Mapping[str, Any],
    former: FittedModel | None = None,
) -> CrossFit:
    """Fit estimators to cross-validation folds, and predict held-out rows.

    With a ``former`` model, ``params.members`` includes its members, and only the others are fitted.
    """
    # Rows; members that the user gave receive the table without encoding
    clock = None if params.time_limit in (None, np.inf) else Clock.start(params.time_limit)
    pairs, as_given, prefit = in_use(params.members), isinstance(params.members, list), isinstance(params.cv, str)
    data = TrainingData.read(
        params,
        X,
        y,
        sample_weight,
        groups,
        former=None if former is None else former.reader,
        as_given=as_given,
        allow_nan=accepted_inputs(pairs)[0],
        by_cv=False,
    )
    given, n, cv = data.rows, len(data.used), params.cv
    if former is not None:
        provenance = former.provenance_to_add(params, given, data.digest())
        pairs = [pair for pair in pairs if pair[0] not in dict(former.estimators.candidates)]
    fixed = next((name for name, model in pairs if prefit or not is_refitted(model)), None)

    # Folds, and the encoded rows
    routed = route_parameters(params, pairs, given.counts, groups, metadata)
    entropy = seed_sequence(params.random_state).entropy if former is None else provenance.entropy
    folds: Folds | OwnFolds
    if former is not None:
        folds = former.estimators.folds
    elif prefit:
        folds = Folds.everything(n)
    elif n < 2:
        raise InvalidParameterError(
            "members are compared on held-out rows, which takes at least 2 rows; got "
            f"n_samples={n}: add rows, or give fitted members and cv='prefit'"
        )
    elif params.design == "hold-out":
        fraction = HOLDOUT_FRACTION if cv is None else cv
        folds = Folds.single(n, fraction, fold_generator(np.random.SeedSequence(entropy)), data.sets)
    elif cv is None or is_fold_count(cv):
        folds = OwnFolds(n, N_FOLDS if cv is None else cv, entropy, data.sets)
    else:
        folds = data.split(cv, routed.get("cv"))
    refit, held_out_rows = params.predict_with == "refit" or folds.trains_on_few, folds.all_held_out
    data = data.by_folds(folds, params.cv)
    if data.reader.encoder is not None:
        data = data.with_target_statistics()
    reader, rows = data.reader, data.encoded
    if former is None:
        provenance = FitProvenance.of(params, entropy, given, data.digest())

    # The default members, if none were chosen
    candidates = params.members
    if not as_given:
        weighted = given.counts is not None
        candidates = default_estimators(n, rows.X.shape[1], weighted=weighted, effort=params.effort)
        pairs = candidates
        if clock is not None:  # networks are fitted last
            pairs = sorted(pairs, key=lambda pair: isinstance(pair[1], DeepEnsembleRegressor))
        routed = route_parameters(params, pairs, given.counts, groups, metadata)
    if n < len(given.y):
        routed = {name: _taken(values, data.used, len(given.y)) for name, values in routed.items()}

    # Link and scale of the targets
    if former is None:
        with stage("choose link"):
            settings = TargetSettings.of(params)
            if settings.target == "auto" and fixed is not None:
                settings = replace(settings, target="identity")
            targets = fit_targets(rows, settings.link(rows), standardize_y=True)
    else:
        reader, targets = former.reader, former.targets
    if fixed is not None and not isinstance(targets.link, IdentityLink):
        raise InvalidParameterError(
            f"member {fixed!r} is used as it is and predicts the target itself, but the members are to predict a "
            "transformed one: use target='identity', or members that fit can fit"
        )
    rows = rows if targets.is_linear else replace(rows, y=targets.link.forward(rows.y))

    # Fit members, and predict held-out rows
    with stage("train"):
        fitter = FoldFitter(rows, routed, folds, held_out_rows, entropy, prefit, refit, params.n_jobs, params.verbose)
        fitted, held_out = fitter.fit(pairs, clock, targets)
    if former is not None:
        fitted = [*former.estimators.members, *fitted]
        held_out = former.required_held_out().join(held_out)
    is_finite, names = held_out.filled().scores().is_finite, [member.name for member in fitted]
    return CrossFit(
        reader=reader,
        members=EstimatorMembers(tuple(fitted), candidates, folds),
        finite=finite_members(is_finite, names, _NOT_FINITE),
        held_out=held_out,
        targets=targets,
        provenance=provenance,
        n_trained=len(fitted),
        X=rows.X,
        held_out_rows=held_out_rows,
        sets=data.sets,
    )


def route_parameters(
    model: Any, pairs: Sequence[Pair], counts: FloatArray | None, groups: Any, metadata: Mapping[str, Any]
) -> Parameters:
    """Return additional arguments of members' ``fit``, by member name; key "cv": those of the splitter's ``split``."""
    if get_config()["enable_metadata_routing"] and isinstance(model.members, list):
        given = {**metadata} if counts is None else {"sample_weight": counts, **metadata}
        if groups is not None and model.get_metadata_routing().consumes("fit", {"groups"}):
            given["groups"] = groups
        if not given:
            return {}
        routed = process_routing(model, "fit", **given)
        return {"cv": routed.get("cv", Bunch(split={})).split} | {
            name: routed[name].fit for name, _ in pairs if name in routed
        }
    if metadata:
        raise InvalidParameterError(
            f"fit can pass {', '.join(metadata)} on only with sklearn.set_config(enable_metadata_routing=True) and "
            "members that request it; got it without"
        )
    if counts is None or isinstance(model.cv, str):
        return {}
    fitted = [(name, estimator) for name, estimator in pairs if is_refitted(estimator)]
    for name, estimator in fitted:
        if not has_fit_parameter(estimator, "sample_weight"):
            raise InvalidParameterError(
                f"every member's fit must take sample_weight; {name!r}, a {type(estimator).__name__}, does not: drop "
                "it, or sklearn.set_config(enable_metadata_routing=True) and request it, or not, for every member and "
                "every step of a Pipeline: set_fit_request(sample_weight=True) or False"
            )
    return {name: {"sample_weight": counts} for name, _ in fitted}


def _taken(values: Mapping[str, Any], numbers: IndexArray, n: int) -> dict[str, Any]:
    """Return arguments of ``fit`` for some of n rows, given by number; arguments with n values are reduced to them."""
    taken = dict(values)
    for name, value in values.items():
        if hasattr(value, "__len__") and not isinstance(value, str | dict) and len(value) == n:
            taken[name] = take_rows(value, numbers)
    return taken


@dataclass(frozen=True, eq=False)
class _Job:
    """One model to fit: its training rows ``kept`` (None: it is fitted already), and the held-out rows it predicts."""

    name: str
    model: Any
    kept: IndexArray | None
    held_out: IndexArray
    is_used: bool = True


_Done = tuple[_Job, Any, MeanStd]
"""A finished job, its fitted model, and the model's means and standard deviations for all rows."""


@dataclass(frozen=True, eq=False)
class FoldFitter:
    """Cross-fitting of estimators to rows with transformed targets, in parallel, with or without a time limit."""

    rows: Rows
    parameters: Parameters
    folds: Folds | OwnFolds
    held_out: IndexArray
    entropy: Any
    prefit: bool
    refit: bool
    n_jobs: int | None
    verbose: int

    def fit(
        self, pairs: Sequence[Pair], clock: Clock | None, targets: TargetScaler
    ) -> tuple[list[EstimatorMember], HeldOut]:
        """Return the fitted members and their held-out predictions.

        With a time limit, members are fitted one after the other. A member is omitted, with a warning, if its first fit
        shows that there is not enough time for its other fits. The first member is always fitted, and no member is
        begun after the limit.
        """
        if clock is None:
            jobs = [job for name, model in pairs for job in self._jobs(name, model)]
            return self._calibrated(self._run_all(jobs, self.n_jobs), targets)
        done: list[_Done] = []
        for name, model in pairs:
            if done and clock.left <= 0:
                break
            first, *others = self._jobs(name, model)
            began = clock.left
            result = self._run_all([first], None)
            waves = -(-len(others) // effective_n_jobs(self.n_jobs))
            if not done or waves * (began - clock.left) <= clock.left:
                done += result + self._run_all(others, self.n_jobs)
        omitted = {name for name, _ in pairs} - {job.name for job, *_ in done}
        if omitted:
            warn_user(
                f"time_limit={clock.seconds:g}: no time for the members {', '.join(map(repr, sorted(omitted)))}, "
                "which are left out; which these are depends on the machine's speed",
                UserWarning,
            )
        return self._calibrated(done, targets)

    def _jobs(self, name: str, model: Any) -> list[_Job]:
        """Return the jobs of a member: one per fold and, with a refit, one for all rows; a fitted model has only one.

        Seeds and folds depend on the member's name, and thus not on the other members.
        """
        if self.prefit or not is_refitted(model):
            return [_Job(name, model, None, self.held_out)]
        seed, folds = np.random.SeedSequence(self.entropy, spawn_key=name_key(name)), self.folds.of_member(name)
        jobs = [
            _Job(name, _seeded(model, child), kept, held_out, is_used=not self.refit)
            for child, (kept, held_out) in zip(seed.spawn(len(folds)), folds, strict=True)
        ]
        nothing = np.arange(0)
        return [*jobs, _Job(name, _seeded(model, seed), np.arange(len(self.rows)), nothing)] if self.refit else jobs

    def _run_all(self, jobs: Sequence[_Job], n_jobs: int | None) -> list[_Done]:
        at_once = effective_n_jobs(n_jobs)
        done = Parallel(n_jobs=n_jobs, verbose=self.verbose)(delayed(self._run)(job, at_once) for job in jobs)
        return [(job, *result) for job, result in zip(jobs, done, strict=True)]

    def _run(self, job: _Job, at_once: int) -> tuple[Any, MeanStd]:
        """Return the fitted model of a job and its predictions for all rows; ``at_once`` jobs run in parallel."""
        if job.kept is not None:
            self._fit_model(job.model, job.name, job.kept, at_once)
        try:
            with bounded_threads(len(self.rows), at_once):
                return job.model, predict_mean_std(job.model, self.rows.X, job.name)
        except NotFittedError as error:
            raise NotFittedError(f"cv='prefit' takes fitted members; fit {job.name!r} first, or let cv be 5") from error

    def _fit_model(self, model: Any, name: str, numbers: IndexArray, at_once: int) -> None:
        """Fit a model to the rows with these numbers; it uses one core if other models are fitted in parallel."""
        rows, parameters = self.rows[numbers], _taken(self.parameters.get(name, {}), numbers, len(self.rows))
        settings = model.get_params() if at_once > 1 else {}
        n_jobs = {key: value for key, value in settings.items() if key.split("__")[-1] == "n_jobs"}
        greedy = {key: value for key, value in n_jobs.items() if value is not None and value < 0}
        try:
            model.set_params(**dict.fromkeys(greedy, 1))
            with bounded_threads(len(numbers), at_once), np.errstate(over="ignore", invalid="ignore"):
                model.fit(rows.X, rows.y, **parameters)  # finite_members warns about members that overflow
        except Exception as error:
            odd = _odd_column(rows.X) if isinstance(error, TypeError | ValueError) else None
            if odd is not None:
                raise InvalidParameterError(
                    f"member {name!r} cannot be fitted to column {odd[0]!r}, which holds {odd[1]} ({error}): give it a "
                    "pipeline that encodes such columns, or members='auto', which take any column"
                ) from error
            error.add_note(f"raised by member {name!r}, fitted to {len(rows)} rows")
            raise
        finally:
            model.set_params(**greedy)

    def _calibrated(self, done: Sequence[_Done], targets: TargetScaler) -> tuple[list[EstimatorMember], HeldOut]:
        """Calibrate the predicted variances; return the members and their held-out predictions in scaled units.

        In ``HeldOut``, ``fold_of`` is the number of the fit not trained on a row; None with a refit to all rows.
        """
        ours: dict[str, list[_Done]] = {}
        for each in done:
            ours.setdefault(each[0].name, []).append(each)
        found = np.full((3, len(self.rows), len(ours)), np.nan)
        fold_of = np.full(found.shape[1:], -1, dtype=np.int16)
        for h, fits in enumerate(ours.values()):
            for k, (job, _, (mean, std)) in enumerate(fits):
                fold_of[job.held_out, h] = k
                found[0, job.held_out, h] = mean[job.held_out]
                found[1, job.held_out, h] = np.nan if std is None else std[job.held_out]
            found[2, :, h] = _std(np.array([mean for job, _, (mean, _) in fits if job.is_used]))
        numbers, counts = self.held_out, self.rows.counts
        is_known, (means, stds, fold_std) = all(job.is_used for job, *_ in done), found[:, numbers]
        with np.errstate(over="ignore", under="ignore"):
            held_out = HeldOut(
                targets.standardize(means),
                (stds / targets.scale) ** 2,
                (fold_std / targets.scale) ** 2,
                targets.standardize(self.rows.y)[numbers],
                None if counts is None else counts[numbers],
                fold_of[numbers] if is_known else None,
            )
        factors = held_out.variance_factors()
        members = [
            EstimatorMember.of(name, [model for job, model, _ in fits if job.is_used], float(np.sqrt(f)), targets.link)
            for (name, fits), f in zip(ours.items(), factors, strict=True)
        ]
        return members, replace(held_out, variances=np.maximum(factors * held_out.variances, MIN_VARIANCE))


def _odd_column(X: Any) -> tuple[Any, str] | None:
    """Return name and kind of values of the first column that many models cannot use, such as text, or None."""
    if not (hasattr(X, "columns") and is_frame(X)):
        return None
    for name in column_names(X):
        column = read_column(X, name)
        if column.kind not in ("number", "boolean"):
            return name, f"{column.kind}s" if column.kind != "text" else "text"
        if column.missing.any():
            return name, "missing values"
    return None


def _std(means: FloatArray) -> FloatArray:
    """Return the standard deviation of means over fits (axis 0), also if squares overflow."""
    with np.errstate(over="ignore", invalid="ignore"):  # finite_members warns later
        apart = means - means.mean(axis=0)
        unit = float(np.abs(apart).max(initial=0.0)) or 1.0
        return np.asarray(unit * np.std(apart / unit, axis=0))


def _seeded(model: Any, seed: np.random.SeedSequence) -> Any:
    """Return an unfitted copy of a model in which each ``random_state`` that was None is an integer from ``seed``."""
    copy = clone(model)
    params = copy.get_params(deep=True)
    states = [name for name in sorted(params) if name.split("__")[-1] == "random_state" and params[name] is None]
    seeds = seed.generate_state(len(states)) % 2**31
    return copy.set_params(**dict(zip(states, seeds.tolist(), strict=True)))


# Default members

MAX_ROWS = 500
"""Maximum number of rows for which an exact Gaussian process is fast enough to be a member."""

MANY_ROWS = 5000
"""Number of rows above which default members have fewer networks and trees, and all boosting is histogram-based."""

_MARGIN = 1e-3

Objective = Callable[[NDArray[np.float64]], tuple[float, NDArray[np.float64]]]


def default_estimators(n_rows: int, n_features: int, *, weighted: bool = False, effort: str = "balanced") -> list[Pair]:
    """Return the default members, of very different kinds: networks, boosting, trees, and a Gaussian process.

    The networks are as in ``BDKNRegressor``: one member for each activation and weight decay, and one for each
    activation with piecewise-linear encodings of the inputs. The Gaussian process is used with few rows only, as its
    time grows with the cube of their number, and only without sample weights, which it does not support. With
    ``effort="fast"`` there are two networks for each of two weight decays, one boosting model and a third of the trees;
    with "best" twice as many networks and trees, and the Gaussian process for up to twice as many rows.
    """
    from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor, HistGradientBoostingRegressor

    few, fast, more = n_rows <= MANY_ROWS, effort == "fast", 2 if effort == "best" else 1
    net = partial(DeepEnsembleRegressor, predictive="gaussian")
    members: list[Pair] = []
    if fast:
        for decay in (0.0, 0.3):
            both = net(n_members=2, activation=("silu", "relu"), weight_decay=decay, effort="fast")
            members.append((f"networks {decay}", both))
    else:
        for decay, n in ({0.0: 2, 0.3: 2, 1.0: 2} if few else {0.0: 2, 0.3: 1}).items():
            for activation in ("silu", "relu"):
                plain = net(n_members=more * n, activation=activation, weight_decay=decay, n_bins=0)
                members.append((f"{activation} {decay}", plain))
        bins = (4, 8, 16, 4, 8, 16) if few else (16, 16)
        for activation in ("silu", "relu"):
            binned = net(n_members=more * len(bins), activation=activation, weight_decay=0.0, n_bins=bins)
            members.append((f"{activation} bins", binned))

    boosting: list[Pair]
    if few:  # small trees on random columns and, in one model, on random rows
        small = {"max_leaf_nodes": 8, "min_samples_leaf": 5, "max_features": 0.3, "l2_regularization": 1.0}
        part = {"max_depth": 4, "min_samples_leaf": 3, "max_features": 0.5, "subsample": 0.7}
        boosting = [
            ("boosting", HistGradientBoostingRegressor(learning_rate=0.05, max_iter=800, **small)),
            ("stochastic boosting", GradientBoostingRegressor(learning_rate=0.05, n_estimators=800, **part)),
        ]
    else:
        common = {"learning_rate": 0.05, "max_features": 0.5}
        large = {"max_leaf_nodes": 127, "min_samples_leaf": 5, "max_iter": 600}
        boosting = [
            ("boosting", HistGradientBoostingRegressor(max_leaf_nodes=63, max_iter=800, **common)),
            ("deep boosting", HistGradientBoostingRegressor(**large, **common)),
        ]
    members += boosting[: 1 if fast else 2]

    n_trees = (300 if few else 100) * more // (3 if fast else 1)
    members.append(("trees", ExtraTreesRegressor(n_estimators=n_trees, max_features=0.5 if few else 1.0)))
    if n_rows <= MAX_ROWS * more and not (weighted or fast):
        members.append(("process", _process(n_features)))
    return members


def _process(n_features: int) -> Any:
    """Return a Gaussian process on standardised columns with one length scale per column."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    smooth = ConstantKernel(1.0, (1e-2, 1e3)) * Matern(np.full(n_features, 2.0), (1e-2, 1e3), nu=2.5)
    kernel = smooth + WhiteKernel(0.1, (1e-5, 1e1))
    return make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, optimizer=_within))


def _within(
    objective: Objective, start: NDArray[np.float64], bounds: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Minimize the objective of a Gaussian process, inside its bounds by a small margin; return parameters and minimum.

    Without this, scikit-learn would warn that the length scale of a column without influence is at its bound.
    """
    inner = bounds + _MARGIN * np.array([1.0, -1.0])
    found = minimize(objective, start, method="L-BFGS-B", jac=True, bounds=inner)
    return found.x, float(found.fun)
