"""The command ``bdkn predict``, which writes predictions for the rows of a table."""

from __future__ import annotations

import math
import os
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from bdkn.cli.inputs import load_model, used_names
from bdkn.cli.terminal import AsJson, Coverage, Density, Jobs, Model, Quiet, Screen, names_of
from bdkn.errors import InvalidParameterError, OutsideDataWarning, check_number

Part = TypeVar("Part")
Result = TypeVar("Result")


class Predictor:
    """Computation of the output table of ``bdkn predict``: columns copied from the input, and predictions.

    ``kinds`` has the type of each input column when it is read from CSV: "number", "boolean", "date" or "text".
    Numbers and dates in a format that Arrow cannot read are read as text.
    """

    def __init__(
        self,
        model: Any,
        copied: tuple[str, ...],
        coverage: float,
        quantiles: tuple[float, ...],
        above: tuple[float, ...],
        *,
        support: bool,
    ) -> None:
        from bdkn.analysis.inspection import input_columns

        self.model, self.copied, self.coverage, self.support = model, copied, coverage, support
        self.quantiles, self.above = quantiles, above
        found = {str(column["name"]): column for column in input_columns(model) or ()}
        self.kinds: dict[str, str] = {}
        for name in used_names(model):
            column = found.get(name, {"kind": "number", "form": ""})
            is_read = column["kind"] in ("number", "boolean", "date") and not column["form"]
            self.kinds[name] = column["kind"] if is_read else "text"
        if not self.kinds:
            raise InvalidParameterError(
                "the model must have the names of its columns; it was fitted to an array without names: fit it to a "
                "data frame, or with `bdkn fit`"
            )
        for level in quantiles:
            check_number("each level in --quantiles", level, low=0, high=1)
        for threshold in above:
            check_number("each threshold in --above", threshold, low=-math.inf)
        names = ["mean", "std", "lower", "upper", *(f"q{level:g}" for level in quantiles)]
        names += [*(f"above_{t:g}" for t in above), *(["support", "support_column"] if support else [])]
        repeated = [name for name, count in Counter(names).items() if count > 1]
        if repeated:
            raise InvalidParameterError(
                "levels in --quantiles and thresholds in --above must differ in their first six digits, which name "
                f"their columns; got {', '.join(repeated)} more than once"
            )
        taken = set(copied) & set(names)
        if taken:
            raise InvalidParameterError(
                f"columns that are copied must not be named as those that are written; got {', '.join(sorted(taken))}: "
                "rename them in the table"
            )
        self.names = [*copied, *names]

    def predict(self, block: Any) -> Any:
        """Return a table with copied columns and predictions for a block of rows; both are Arrow tables."""
        import numpy as np
        import pyarrow as pa

        from bdkn.table_files.reading import plain_columns

        model, kinds = self.model, self.kinds
        table = block.select(list(kinds))
        for place, (name, kind) in enumerate(kinds.items()):
            if name in self.copied and kind != "text":
                table = table.set_column(place, name, from_text(table[name], kind, name))
        X = plain_columns(table)
        dist = model.predict_dist(X)
        if getattr(model, "target_values_", None) is None:
            interval, above = dist.interval(self.coverage), [1.0 - dist.cdf(t) for t in self.above]
            quantiles = dist.ppf(np.array(self.quantiles)).T if self.quantiles else []
        else:  # single values have probabilities, which the density does not contain
            interval, above = (
                model.predict_interval(X, self.coverage).T,
                [model.predict_above(X, t) for t in self.above],
            )
            quantiles = model.predict_quantiles(X, self.quantiles).T if self.quantiles else []
        columns = [*(block[name] for name in self.copied), dist.mean(), dist.std(), *interval, *quantiles, *above]
        if self.support:
            found = model.support(X)
            named = [None if name is None else str(name) for name in found.column]
            columns += [pa.array(found.status.astype(object), pa.string()), pa.array(named, pa.string())]
        arrays = [column if isinstance(column, pa.ChunkedArray | pa.Array) else pa.array(column) for column in columns]
        return pa.table(arrays, names=self.names)


def from_text(column: Any, kind: str, name: str) -> Any:
    """Convert an Arrow column of texts to numbers, booleans or dates; return any other column unchanged."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from bdkn.table_files.csv_files import read_dates, without_missing

    if not pa.types.is_string(column.type):
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


def in_order(work: Callable[[Part], Result], parts: Iterable[Part], workers: int) -> Iterator[Result]:
    """Call ``work`` on each part in parallel, and yield results in order; few parts are in memory at a time."""
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
        bool, typer.Option("--support/--no-support", help="Write which rows lie outside the training data.")
    ] = True,
    formulas: Annotated[
        bool, typer.Option("--formulas", help="Copy texts to CSV as they stand, also those that spreadsheets compute.")
    ] = False,
    density: Density = None,
    jobs: Jobs = -1,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict the rows of a table.

    Writes one line per row, in the order of the table: mean, standard deviation and interval; on request quantiles and
    the probability to exceed a threshold; and whether the row lies inside the training data ("inside", "gap",
    "outside"), with the column that is responsible. Files are read and written by their ending; "-" is standard input
    or output, as CSV.

    Example:

        bdkn predict flats.bdkn new.csv --id id --above 500000 --out predicted.csv
    """
    from bdkn.analysis.inspection import n_prototypes
    from bdkn.table_files import STREAM, check_output, format_of, open_blocks, writing
    from bdkn.threads import one_blas_thread

    if as_json and out == STREAM:
        raise InvalidParameterError("--json prints a summary on standard output; name a file for the table: --out")
    screen = Screen(json=as_json, quiet=quiet)
    format_of(out)
    if out != STREAM:
        check_output(out, *(() if data == STREAM else (data,)), model)
    fitted = load_model(model, density)
    predictor = Predictor(
        fitted,
        tuple(dict.fromkeys([*names_of(id), *names_of(keep)])),
        coverage,
        _numbers("--quantiles", quantiles),
        _numbers("--above", above),
        support=support and n_prototypes(fitted) > 0,
    )
    # Columns to copy are read as text, unchanged. More than two threads per core would only need memory.
    kinds = {**predictor.kinds, **dict.fromkeys(predictor.copied, "text")}
    cores = os.cpu_count() or 1
    workers = min(jobs, 2 * cores) if jobs > 0 else cores
    n_rows, status = 0, Counter[str]()
    with screen.noting_warnings(), warnings.catch_warnings(), one_blas_thread():
        warnings.simplefilter("ignore", OutsideDataWarning)
        blocks = open_blocks(data, kinds, screen.note)
        with writing(out, formulas=formulas) as file:
            for table in in_order(predictor.predict, blocks, workers):
                n_rows += table.num_rows
                if predictor.support:
                    for found in table["support"].value_counts().to_pylist():
                        status[found["values"]] += found["counts"]
                file.write(table)
            if not n_rows:
                raise InvalidParameterError(f"the table must have at least one row to predict; {data} has none")
    far = status["gap"] + status["outside"]
    if far:
        screen.note(
            f"{far:,} of {n_rows:,} rows of {Path(data).name} are unlike the training rows ({status['outside']:,} "
            "beyond the range of a column): their predictions are extrapolations, with wide intervals"
        )
    if file.marked:
        screen.note(
            f"{file.marked:,} copied texts would be computed by a spreadsheet, as they begin with =, +, - or @; "
            "they have a ' in front of them now. --formulas copies them as they stand"
        )
    written = "" if out == STREAM else f": {out}"
    screen.progress(f"{n_rows:,} row{'s' if n_rows != 1 else ''} predicted{written}")
    screen.finish({"rows": n_rows, "support": status, "out": out})


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    """Return the numbers in a comma-separated text; raise if one is not a number."""
    try:
        return tuple(float(word) for word in names_of(text))
    except ValueError as error:
        raise InvalidParameterError(
            f"{option} must be numbers separated by commas, as 0.1,0.9; got {text!r}"
        ) from error
