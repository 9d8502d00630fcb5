"""The HTML report about a model, which is one file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bdkn.analysis.inspection import input_columns
from bdkn.analysis.tables import TableView
from bdkn.arrays import read_numbers
from bdkn.errors import InvalidParameterError, check_flag, check_number, no_extrapolation_warnings, require
from bdkn.report.charts import (
    draw_pit,
    draw_predictions,
    draw_reliability,
    driver_lines,
    error_lines,
    member_lines,
    support_lines,
    variance_lines,
)
from bdkn.report.evaluation import Evaluation, drivers_of, errors_by_column
from bdkn.report.verdict import how_made, key_numbers, least_sure, tiles, verdict_of, warnings_of
from bdkn.report.what_if import Payload, describe_inputs, payload_of
from bdkn.storage.atomic import replace_file
from bdkn.table_files.formats import check_name, check_output


def prepare_folder(path: str | Path) -> Path:
    """Create the folder ``path`` if it does not exist, and return it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidParameterError(
            f"the report must be written to a folder; got {folder}, which is a file or below one: name another folder"
        ) from error
    return folder


_MAX_TARGET = 1e150
"""Maximum absolute value of a target; squares of larger ones would exceed double precision."""

_MAX_COLUMNS = 6
"""Maximum number of columns for which errors are shown."""


@dataclass(frozen=True, repr=False)
class Page:
    """An HTML report about a model; ``text`` is the HTML, and notebooks display it."""

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the HTML report to a file; an existing file is replaced."""
        replace_file(check_page_file(path), self.html.encode("utf-8"))

    def _repr_html_(self) -> str:
        """Return an HTML frame that contains the report, for notebooks."""
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:48rem;border:0"></iframe>'

    def __repr__(self) -> str:
        return f"Page of {len(self.html) / 1e6:.2f} MB; save(path) writes it to a file"


def check_page_file(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` as a Path; raise unless an HTML file can be written there."""
    target = Path(path)
    check_name(target)
    if target.is_dir() or not target.parent.is_dir():
        raise InvalidParameterError(
            f"the page must be written to a file in a folder that exists; got {str(target)!r}: name a file such as "
            "'report.html', or make the folder first"
        )
    check_output(target)
    return target


def write_page(
    model: Any,
    X: Any,
    y: ArrayLike,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    target_name: str = "y",
    rows: int = 3000,
    what_if: bool = True,
) -> None:
    """Write an HTML report about a fitted model, evaluated on rows that it has not seen.

    The report is one file that needs no network. It shows a verdict, scores with their uncertainty, charts, the parts
    of the variance, distances from the training rows, and the members. It also predicts for values of your choice.

    Parameters
    ----------
    model : BDKNRegressor, BayesianStackingRegressor or DeepEnsembleRegressor
        The fitted model.
    X : array-like of shape (n_samples, n_features)
        Rows to evaluate the model on; it must not have been fitted to them.
    y : array-like of shape (n_samples,)
        Targets of these rows.
    path : str or path-like
        File to write; an existing file is replaced.
    title : str, optional
        Title of the report; by default, it contains the name of the target.
    target_name : str, default="y"
        Name of the target.
    rows : int, default=3000
        Maximum number of rows to use; if there are more, some are drawn at random, always the same ones.
    what_if : bool, default=True
        Whether the report contains the model, if it has at most 8 MB, to predict values of your choice.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib
    >>> from bdkn import BDKNRegressor
    >>> from bdkn.report import write_page
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 2))
    >>> y = X[:, 0] + 0.1 * rng.normal(size=120)
    >>> model = BDKNRegressor(n_members=3, epochs=20, random_state=0).fit(X[:80], y[:80])
    >>> page = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> write_page(model, X[80:], y[80:], page, target_name="price")
    >>> page.read_text("utf-8")[:15]
    '<!doctype html>'
    """
    check_page_file(path)
    make_page(model, X, y, title=title, target_name=target_name, rows=rows, what_if=what_if).save(path)


def make_page(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    title: str | None = None,
    target_name: str = "y",
    rows: int = 3000,
    what_if: bool = True,
) -> Page:
    """Return an HTML report about a fitted model; the parameters are explained in ``write_page``."""
    require("jinja2", extra="report")
    check_number("rows", rows, low=2, whole=True)
    check_flag("what_if", what_if)
    check_is_fitted(model)
    evaluation, n_given = evaluate(model, X, y, rows)
    with no_extrapolation_warnings():  # the report shows distances from the training rows
        drivers = drivers_of(evaluation)
        order = [driver.name for driver in drivers]
        payload = payload_of(model) if what_if else Payload(None)
        overall = float(evaluation.own_scores["absolute"].mean())
        content = {
            "title": title or f"Predictions of {target_name}",
            "target": target_name,
            "verdict": verdict_of(evaluation, target_name),
            "tiles": tiles(evaluation),
            "numbers": key_numbers(evaluation),
            "predictions": draw_predictions(evaluation, target_name),
            "calibration": (draw_reliability(evaluation), draw_pit(evaluation)),
            "errors": [error_lines(found, overall) for found in errors_by_column(evaluation)[:_MAX_COLUMNS]],
            "drivers": driver_lines(drivers),
            "variance": variance_lines(evaluation.parts, evaluation.std),
            "support": support_lines(evaluation),
            "members": member_lines(model),
            "are_alike": not getattr(model, "weights_identified_", True),
            "least_sure": least_sure(evaluation, order),
            "warnings": warnings_of(evaluation),
            "made": how_made(evaluation, n_given),
            "what_if": None,
            "what_if_note": payload.note,
            "n": len(evaluation.y),
        }
        if payload.model is not None:
            inputs = describe_inputs(evaluation, order)
            upper = evaluation.half[inputs["rows"][0]["row"], 1]
            content["what_if"] = {
                "model": payload.model,
                **inputs,
                "target": target_name,
                "range": np.quantile(evaluation.y, (0.02, 0.98)).tolist(),
                "threshold": float(f"{upper:.2g}"),
            }
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Text is escaped; scripts and styles are inserted as they are.
    loader = PackageLoader("bdkn.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["as_script"] = as_script
    return Page(environment.get_template("page.html").render(**content))


def evaluate(model: Any, X: Any, y: ArrayLike, rows: int) -> tuple[Evaluation, int]:
    """Evaluate the model on at most ``rows`` of the given rows; return the evaluation and the number of given rows."""
    columns = input_columns(model)
    names = getattr(model, "feature_names_in_", None) if columns is None else [column["name"] for column in columns]
    view = TableView.of(X, names)
    targets = read_numbers("y", y)
    if targets.shape != (len(view),) or len(view) < 2:
        raise InvalidParameterError(
            f"X and y must be two rows or more, with one target each; got {len(view)} rows and targets of shape "
            f"{targets.shape}"
        )
    if not np.isfinite(targets).all():
        raise InvalidParameterError(
            f"y must be finite; {np.sum(~np.isfinite(targets))} of {len(targets)} targets are missing or infinite: "
            "remove such rows"
        )
    if np.abs(targets).max() > _MAX_TARGET:
        raise InvalidParameterError(
            f"y must be within ±{_MAX_TARGET:g}, as the page shows mean squares; got {np.abs(targets).max():g}: fit "
            "the target in other units, and make the page of that model"
        )
    some = np.sort(np.random.default_rng(0).permutation(len(view))[:rows])
    view = view if len(some) == len(view) else view.rows(some)
    return Evaluation(model, view, targets[some]), len(targets)


def as_script(data: Any) -> str:
    """Return data as JSON for a script element of HTML; characters that could end the element are escaped."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
