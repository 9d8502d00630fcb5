"""bdkn predict."""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from bdkn.cli.model_files import choose_density, load_model, used_names
from bdkn.cli.terminal import AsJson, Coverage, Density, Jobs, Model, Quiet, Screen, errors_as_messages, names_of
from bdkn.errors import InvalidParameterError, OutsideDataWarning, check_number

Part = TypeVar("Part")
Result = TypeVar("Result")


@dataclass(frozen=True)
class PredictionPlan:
    """What is predicted for every row: by which model, from which columns, with which columns copied."""

    model: Any
    inputs: Mapping[str, str]
    copied: tuple[str, ...]
    coverage: float
    quantiles: tuple[float, ...]
    above: tuple[float, ...]
    support: bool

    @classmethod
    def of(
        cls,
        model: Any,
        copied: tuple[str, ...],
        coverage: float,
        quantiles: tuple[float, ...],
        above: tuple[float, ...],
        *,
        support: bool,
    ) -> PredictionPlan:
        """Return the checked plan."""
        names = used_names(model)
        if names is None:
            raise InvalidParameterError(
                "the model must know the names of its columns; it was fitted to an array without names: fit it to a "
                "data frame, or with `bdkn fit`"
            )
        for level in quantiles:
            check_number("each level in --quantiles", level, low=0, high=1)
        for threshold in above:
            check_number("each threshold in --above", threshold, low=-math.inf)
        plan = cls(
            model, input_kinds(model, names), copied, coverage, quantiles, above, support and can_tell_support(model)
        )
        repeated = [name for name, count in Counter(plan.output_names()).items() if count > 1]
        if repeated:
            raise InvalidParameterError(
                "levels in --quantiles and thresholds in --above must differ in their first six digits, which name "
                f"their columns; got {', '.join(repeated)} more than once"
            )
        taken = set(copied) & set(plan.output_names())
        if taken:
            raise InvalidParameterError(
                f"columns that are copied must not be named as those that are written; got {', '.join(sorted(taken))}: "
                "rename them in the table"
            )
        return plan

    def output_names(self) -> list[str]:
        """Return the names of the columns that are written, in addition to those copied."""
        more = [*(f"q{level:g}" for level in self.quantiles), *(f"above_{t:g}" for t in self.above)]
        return ["mean", "std", "lower", "upper", *more, *(["support", "support_column"] if self.support else [])]

    def kinds(self) -> dict[str, str]:
        """Return how each column is read: copied ones as they stand, inputs as in the fit."""
        return {**self.inputs, **dict.fromkeys(self.copied, "text")}

    def predicted(self, block: Any) -> Any:
        """Return the Arrow table of predictions for an Arrow table of rows."""
        import numpy as np
        import pyarrow as pa

        X = self._frame(block)
        dist = self.model.predict_dist(X)
        columns = [*(block[name] for name in self.copied), dist.mean(), dist.std(), *self._interval(X, dist)]
        if self.quantiles:
            columns += [*self._quantiles(X, dist, np.array(self.quantiles)).T]
        columns += [self._above(X, dist, t) for t in self.above]
        if self.support:
            found = self.model.support(X)
            named = [None if name is None else str(name) for name in found.column]
            columns += [pa.array(found.status.astype(object), pa.string()), pa.array(named, pa.string())]
        arrays = [column if isinstance(column, pa.ChunkedArray | pa.Array) else pa.array(column) for column in columns]
        return pa.table(arrays, names=[*self.copied, *self.output_names()])

    def _frame(self, block: Any) -> Any:
        """Return the inputs as a table that the model knows."""
        from bdkn.table_files.reading import as_pandas, plain_columns

        table = block.select(list(self.inputs))
        for place, (name, kind) in enumerate(self.inputs.items()):
            if name in self.copied and kind != "text":
                table = table.set_column(place, name, from_text(table[name], kind, name))
        return as_pandas(table) if self.model.model_.reader.encoder is None else plain_columns(table)

    def _interval(self, X: Any, dist: Any) -> Any:
        """Return both ends of ``predict_interval``; rows are predicted again only if targets share values."""
        if getattr(self.model, "target_values_", None) is None:
            return dist.interval(self.coverage)
        return self.model.predict_interval(X, self.coverage).T

    def _quantiles(self, X: Any, dist: Any, levels: Any) -> Any:
        """Return the quantiles of ``predict_quantiles``; rows are predicted again only if targets share values."""
        if getattr(self.model, "target_values_", None) is None:
            return dist.ppf(levels)
        return self.model.predict_quantiles(X, levels)

    def _above(self, X: Any, dist: Any, threshold: float) -> Any:
        if getattr(self.model, "target_values_", None) is not None and hasattr(self.model, "predict_above"):
            return self.model.predict_above(X, threshold)
        return 1.0 - dist.cdf(threshold)


@dataclass
class Counts:
    """How many rows were predicted, and how many of them have which support."""

    rows: int = 0
    status: Counter[str] = field(default_factory=Counter)
    marked: int = 0

    def add(self, table: Any) -> None:
        """Count the rows of a table of predictions."""
        self.rows += table.num_rows
        if "support" in table.column_names:
            for item in table["support"].value_counts().to_pylist():
                self.status[item["values"]] += item["counts"]

    def notes(self, data: str) -> list[str]:
        """Return what should be said about the rows."""
        notes, far = [], self.status["gap"] + self.status["outside"]
        if far:
            notes.append(
                f"{far:,} of {self.rows:,} rows of {data} are unlike the training rows ({self.status['outside']:,} "
                "beyond the range of a column): their predictions are extrapolations, with wide intervals"
            )
        if self.marked:
            notes.append(
                f"{self.marked:,} copied texts would be computed by a spreadsheet, as they begin with =, +, - or @; "
                "they have a ' in front of them now. --formulas copies them as they stand"
            )
        return notes


def predict_file(
    plan: PredictionPlan, data: str, out: str, workers: int, tell: Callable[[str], None], *, formulas: bool = False
) -> Counts:
    """Predict a table file and write the predictions to another, which appears when it is complete."""
    from bdkn.table_files import open_blocks, writing
    from bdkn.threads import one_blas_thread

    counts = Counts()
    with warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", OutsideDataWarning)
        blocks = open_blocks(data, plan.kinds(), tell)
        with writing(out, formulas=formulas) as file:
            for table in in_order(plan.predicted, blocks, workers):
                counts.add(table)
                file.write(table)
            if not counts.rows:
                raise InvalidParameterError(f"the table must have at least one row to predict; {data} has none")
            counts.marked = file.marked
    return counts


def in_order(work: Callable[[Part], Result], parts: Iterable[Part], workers: int) -> Iterator[Result]:
    """Yield the results of the work on all parts, in their order; few parts are in memory at a time."""
    if workers < 2:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for part in parts:
            waiting.append(pool.submit(work, part))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def input_kinds(model: Any, names: Iterable[str]) -> dict[str, str]:
    """Return how input columns are read from a CSV file, by what they were in the fit."""
    found = {str(row["name"]): row["kind"] for row in getattr(getattr(model, "columns_", None), "rows", ())}
    table = model.model_.reader.encoder
    for column in () if table is None else table.columns:
        if getattr(column, "form", ""):  # numbers or dates that are written in a way that Arrow does not read
            found[str(column.name)] = "text"
    kinds = {name: found.get(name, "number") for name in names}
    return {name: kind if kind in ("number", "boolean", "date") else "text" for name, kind in kinds.items()}


def can_tell_support(model: Any) -> bool:
    """Return whether a model knows where its training rows lie."""
    return getattr(model.model_, "extrapolation", None) is not None


def from_text(column: Any, kind: str, name: str) -> Any:
    """Return a column of texts as numbers, booleans or dates; a column that holds no texts as it is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from bdkn.table_files.csv_files import read_dates, without_missing

    if not pa.types.is_string(column.type) or kind == "text":
        return column
    if kind == "date":
        return read_dates(column)
    texts = without_missing(column)
    try:
        return texts.cast(pa.bool_() if kind == "boolean" else pa.float64())
    except pa.ArrowInvalid as error:
        if kind == "number" and pc.any(pc.match_substring(texts, ",")).as_py():
            return from_text(pc.replace_substring(texts, ",", "."), kind, name)
        raise InvalidParameterError(f"column {name!r} must hold {kind}s ({str(error).splitlines()[0]})") from error


HELP = """Predict the rows of a table.

Writes one line per row, in the order of the table: mean, standard deviation and interval; on request quantiles and the
probability to exceed a threshold; and whether the row lies inside the training data ("inside", "gap", "outside"), with
the column that is responsible. Files are read and written by their ending; "-" is standard input or output, as CSV.

Example:

    bdkn predict flats.bdkn new.csv --id id --above 500000 --out predicted.csv
"""


def predict(
    model: Model,
    data: Annotated[str, typer.Argument(help="Table to predict, or - for CSV on standard input.", show_default=False)],
    out: Annotated[str, typer.Option(help="Table to write, or - for CSV on standard output.")] = "-",
    id: Annotated[str | None, typer.Option(help="Column that identifies rows; it is copied as it stands.")] = None,
    keep: Annotated[str | None, typer.Option(help="More columns to copy: a,b,c.")] = None,
    coverage: Coverage = 0.9,
    quantiles: Annotated[str | None, typer.Option(help="Levels of quantiles: 0.05,0.5,0.95.")] = None,
    above: Annotated[str | None, typer.Option(help="Thresholds t for the probability P(y > t): 10,20.")] = None,
    support: Annotated[
        bool, typer.Option("--support/--no-support", help="Say which rows lie outside the training data.")
    ] = True,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="Copy texts to CSV as they stand, also those that spreadsheets compute.")
    ] = False,
    density: Density = None,
    jobs: Jobs = -1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table."""
    with errors_as_messages():
        from bdkn.errors import InvalidParameterError
        from bdkn.table_files import STREAM, check_output, format_of

        if as_json and out == STREAM:
            raise InvalidParameterError("--json prints a summary on standard output; name a file for the table: --out")
        screen = Screen(json=as_json, quiet=quiet)
        format_of(out)
        if out != STREAM:
            check_output(out, *(() if data == STREAM else (data,)), model)
        fitted = choose_density(load_model(model), density)
        copied = tuple(dict.fromkeys([*names_of(id), *names_of(keep)]))
        plan = PredictionPlan.of(
            fitted, copied, coverage, _numbers("--quantiles", quantiles), _numbers("--above", above), support=support
        )
        with screen.noting_warnings():
            counts = predict_file(plan, data, out, _workers(jobs), screen.note, formulas=formulas)
        for note in counts.notes(Path(data).name):
            screen.note(note)
        screen.progress(
            f"{counts.rows:,} row{'s' if counts.rows != 1 else ''} predicted" + ("" if out == STREAM else f": {out}")
        )
        screen.finish({"rows": counts.rows, "support": counts.status, "out": out})


def _workers(jobs: int) -> int:
    """Return the number of threads; more than twice as many as there are cores only need memory."""
    cores = os.cpu_count() or 1
    return min(jobs, 2 * cores) if jobs > 0 else cores


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Return the numbers in a list that is separated by commas."""
    from bdkn.errors import InvalidParameterError

    try:
        return tuple(float(word) for word in names_of(text))
    except ValueError as error:
        raise InvalidParameterError(
            f"{option} must be numbers separated by commas, as 0.1,0.9; got {text!r}"
        ) from error
