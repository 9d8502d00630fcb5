"""Figures, pages, the command and experiment files: odd arguments and odd files."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from bdkn.plots import CalibrationDisplay, CurveDisplay, IntervalDisplay, PITDisplay
from sent.judge import Judge
from sent.predictives import FAMILIES, distribution, kinds, numbers, scalars, seeds
from sent.regressors import fitted, ordinary
from sent.tables import TABLES, table
from sent.vectors import vector


def undrawn(display: type) -> Any:
    """Return a display that computes its numbers and draws nothing."""
    return type(display.__name__, (display,), {"plot": lambda self, ax=None, **options: self})


INTERVAL, CALIBRATION, PIT, CURVE = map(undrawn, (IntervalDisplay, CalibrationDisplay, PITDisplay, CurveDisplay))


def try_figure(judge: Judge, data: Any) -> None:
    """Compute figures of odd targets, with odd levels, numbers of bins and of rows."""
    seed, n, family = data.draw(seeds), data.draw(st.integers(2, 6)), data.draw(st.sampled_from(FAMILIES[:2]))
    dist, v = distribution(seed, n, family), numbers(seed, n)
    y, value = vector(data.draw(kinds), v), data.draw(scalars)
    must = "refuse" if y.means is None else "either" if y.may_refuse else "answer"
    of_targets: dict[str, Callable[[Any], Any]] = {
        "IntervalDisplay": lambda y: INTERVAL.from_predictions(y, dist).data.y,
        "PITDisplay": lambda y: PIT.from_predictions(y, dist).data.density,
        "CalibrationDisplay": lambda y: CALIBRATION.from_predictions(y, dist).data.observed,
    }
    for name, ask in of_targets.items():
        if y.kind != "generator":
            judge.call("figures", name, partial(ask, y.value), given=f"{name} y={y.kind}", check=_no_nan, must=must)
    of_values: dict[str, Callable[[Any], Any]] = {
        "levels of IntervalDisplay": lambda given: INTERVAL.from_predictions(v, dist, levels=given).data.y,
        "max_rows of IntervalDisplay": lambda given: INTERVAL.from_predictions(v, dist, max_rows=given).data.y,
        "bins of PITDisplay": lambda given: PIT.from_predictions(v, dist, bins=given).data.density,
        "confidence of PITDisplay": lambda given: PIT.from_predictions(v, dist, bins=3, confidence=given).data.lower,
        "levels of CalibrationDisplay": lambda given: CALIBRATION.from_predictions(v, dist, levels=given).data.observed,
        "confidence of CalibrationDisplay": lambda given: (
            CALIBRATION.from_predictions(v, dist, confidence=given).data.lower
        ),
        "points of CurveDisplay": lambda given: CURVE.from_predictions(v, dist, points=given).data.mean,
        "truth of CurveDisplay": lambda given: CURVE.from_predictions(v, dist, truth=given).data.mean,
        "x of CurveDisplay": lambda given: CURVE.from_predictions(given, dist).data.mean,
    }
    for name, ask in of_values.items():
        judge.call("figures", name, partial(ask, value), given=f"{name}={value!r:.150}", check=_no_nan)


def _no_nan(result: Any) -> None:
    assert not np.isnan(np.asarray(result, dtype=float)).any(), result


def try_page(judge: Judge, data: Any) -> None:
    """Make pages of odd rows, targets, titles and numbers of rows."""
    from bdkn.report import make_page

    model, X, y = fitted(data.draw(st.sampled_from(("bdkn", "ensemble"))))
    odd = data.draw(st.sampled_from(("X", "y", "title", "rows", "path", "what_if")))
    rows = table(data.draw(st.sampled_from(TABLES)), X) if odd == "X" else None
    targets = vector(data.draw(kinds), y) if odd == "y" else None
    value: Any = data.draw(
        st.sampled_from(("<script>alert(1)</script>", "{{ 7 * 7 }}", "\u0000", "é" * 300, "</title>"))
    )
    more: dict[str, Any] = {"title": value, "target_name": value} if odd == "title" else {}
    if odd in ("rows", "what_if"):
        value = data.draw(scalars)
        more = {odd: value}

    def write() -> str:
        if odd == "path":
            with tempfile.TemporaryDirectory() as folder:
                place = data.draw(st.sampled_from((".", "a/b.html", "x" * 300, "a\0b", "/dev/null/x", "p.html")))
                model.report(X, y, Path(folder) / place)
                return (Path(folder) / place).read_text("utf-8")
        page = make_page(model, X if rows is None else rows.value, y if targets is None else targets.value, **more)
        return page.html

    def check(html: str) -> None:
        assert html.startswith("<!doctype html>")
        assert "<script>alert" not in html
        assert not re.search(r">[^<>]*\b(nan|inf)\b", re.sub(r"(?s)<script.*?</script>", "", html)), "a number is none"
        assert odd != "title" or "{{ 7" not in value or "{{ 7 * 7 }}" in html

    bad = (rows is not None and rows.means is None) or (targets is not None and targets.means is None)
    given = f"{odd} X={rows and rows.kind} y={targets and targets.kind} {value!r:.80}"
    judge.call("pages", odd, write, given=given, check=check, must="refuse" if bad else "either")


@cache
def _model_file() -> Path:
    import pandas as pd

    import bdkn

    X, y = ordinary(5, 30)
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = bdkn.BDKNRegressor(n_members=2, epochs=1, cv=2, hidden_layer_sizes=3, random_state=0).fit(frame, y)
    path = Path(tempfile.mkdtemp()) / "model.bdkn"
    model.save(path)
    return path


CELLS = (
    "1.5",
    "-2",
    "",
    "nan",
    "inf",
    "-inf",
    "NA",
    "abc",
    "1e400",
    "=1+1",
    "1,5",
    '"',
    "2026-01-31",
    "true",
    " ",
    "\x00",
    "é",
    "9" * 40,
    "<b>",
    "0x10",
    "1_000",
    "None",
    "#N/A",
    "½",
)
HEADERS = ("a", "b", "price", "", "a", "b b", "é", "[/bold]", "price ", "0", "=cmd", "\ufeffa", '"q"', "x" * 300)


def _file(data: Any, rng: np.random.Generator) -> bytes:
    """Return a table file: an ordinary one in which some cells, names or bytes are odd."""
    X, y = ordinary(int(rng.integers(1000)), int(rng.integers(0, 14)))
    lines = [
        ["a", "b", "price"],
        *([f"{value:.3f}" for value in (*row, target)] for row, target in zip(X, y, strict=True)),
    ]
    for _ in range(int(rng.integers(0, 4))):
        i, j = int(rng.integers(len(lines))), int(rng.integers(3))
        lines[i][min(j, len(lines[i]) - 1)] = str(rng.choice(CELLS if i else HEADERS))
    if rng.random() < 0.15:
        lines[int(rng.integers(len(lines)))].append("more")
    text = io.StringIO()
    csv.writer(text, delimiter=str(rng.choice([",", ";", "\t"]))).writerows(lines)
    content = text.getvalue().encode(str(rng.choice(["utf-8", "utf-8", "utf-16", "latin-1"])), errors="replace")
    return content if rng.random() < 0.9 else content[: int(rng.integers(len(content) + 1))]


OPTIONS = (
    "--effort",
    "--coverage",
    "--lower",
    "--upper",
    "--seed",
    "--jobs",
    "--method",
    "--drop",
    "--features",
    "--groups",
    "--weights",
    "--time",
    "--target",
    "--out",
    "--time-limit",
)
WORDS = (
    "fast",
    "abc",
    "",
    "-1",
    "0",
    "1",
    "0.5",
    "nan",
    "inf",
    "1e400",
    "10000000000000000000000",
    "a",
    "b",
    "price",
    "a,b",
    "nosuch",
    "/",
    "x" * 300,
    "[bold]",
    "--",
)


def try_command(judge: Judge, data: Any) -> None:
    """Run a verb of the command with an odd file or an odd option."""
    from typer.testing import CliRunner

    from bdkn.cli import app

    seed = data.draw(seeds)
    rng = np.random.default_rng(seed)
    verb = data.draw(
        st.sampled_from(
            ("fit", "predict", "predict", "evaluate", "explain", "inspect", "update", "report", "demo", "compare")
        )
    )

    def run() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            (place / "t.csv").write_bytes(_file(data, rng))
            given, model, out = str(place / "t.csv"), str(_model_file()), str(place / "out.bdkn")
            words = {
                "fit": [
                    "fit",
                    given,
                    "--target",
                    "price",
                    "--out",
                    out,
                    "--effort",
                    "fast",
                    "--time-limit",
                    "0.1",
                    "--jobs",
                    "1",
                ],
                "predict": ["predict", model, given],
                "evaluate": ["evaluate", model, given, "--target", "price"],
                "explain": ["explain", model, given, "--rows", "1"],
                "inspect": ["inspect", given if seed % 2 else model],
                "update": ["update", model, given, "--target", "price", "--out", out],
                "report": ["report", model, given, "--target", "price", "--out", str(place / "r.html")],
                "demo": ["demo", "--rows", str(rng.choice(WORDS[:8])), "--out", given],
                "compare": ["compare", given, "--target", "nosuch"],
            }[verb]
            if rng.random() < 0.4:
                words += [str(rng.choice(OPTIONS)), str(rng.choice(WORDS))]
            result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
            return words, result

    def check(answer: Any) -> None:
        words, result = answer
        assert result.exit_code in (0, 2), (words[:1] + words[-2:], result.exit_code, repr(result.exception)[:300])
        assert result.exit_code == 0 or "rror" in result.output, (words, result.output[-300:])
        assert "Traceback" not in result.output

    judge.call("commands", verb, run, given=f"{verb} seed={seed}", check=check)


_DOCUMENT: dict[str, Any] = {
    "name": "mine",
    "title": "t",
    "datasets": ["own"],
    "splits": 2,
    "seed": 0,
    "kind": "scores",
    "methods": {
        "bdkn": {
            "regressor": "BDKNRegressor",
            "base": {"from_paper": 1},
            "parameters": {"n_members": 2},
            "datasets": {"own": {"epochs": 3}},
        }
    },
    "tables": {"own": {"path": "own.csv", "target": "y", "splits": 2}},
}


def try_experiment(judge: Judge, data: Any) -> None:
    """Read experiments one of whose values is odd."""
    import copy

    from bdkn_paper.experiments.experiment import parse_experiment

    document = copy.deepcopy(_DOCUMENT)
    part: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(part)))
        if isinstance(part[key], dict) and data.draw(st.booleans()):
            part = part[key]
            continue
        break
    value = data.draw(
        st.one_of(
            scalars,
            st.text(max_size=8),
            st.sampled_from(("../x", "a/b", "all", ".", [], {}, {"a": {}}, ["own", "own"])),
        )
    )
    if data.draw(st.booleans()):
        part[key] = value
    else:
        part[value if isinstance(value, str) else "other"] = part.pop(key)

    def check(experiment: Any) -> None:
        assert experiment.name
        assert all(name in experiment.tables or name for name in experiment.datasets)

    judge.call(
        "experiment files",
        "parse_experiment",
        lambda: parse_experiment(document),
        given=f"{key}={value!r:.100}",
        check=check,
    )


def try_load(judge: Judge, data: Any) -> None:
    """Load files that are no models."""
    import bdkn

    content = data.draw(st.binary(max_size=200))
    cut = data.draw(st.integers(0, 5000))
    whole = _model_file().read_bytes()

    def load() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.bdkn"
            path.write_bytes(content if cut % 2 else whole[: cut * 3] + content)
            return bdkn.load(path)

    if not cut % 2 and 3 * cut >= len(whole) and not content:  # that is the model
        return

    judge.call("model files", "load", load, given=f"{content!r:.100} after {cut} bytes", must="refuse")
