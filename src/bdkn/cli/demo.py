"""The command ``bdkn demo``, which shows the other commands on invented tables."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from bdkn.cli.terminal import MAX_SEED, Screen, cell
from bdkn.errors import require

DISTRICTS = {
    "Harbour": 1.30,
    "Old Town": 1.45,
    "University": 1.20,
    "Station": 1.00,
    "Hillside": 1.15,
    "Riverbank": 1.10,
    "Mill Quarter": 0.90,
    "Airfield": 0.75,
}
"""Price of a square metre in each district of the invented flats, relative to the average price."""

HEATINGS = ("gas", "district heating", "heat pump", "oil")


def make_flats(n: int, seed: int = 0) -> Any:
    """Return ``n`` invented flats as a data frame; heating, renovation year and distance are missing in some rows."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    district = rng.choice(list(DISTRICTS), n, p=np.array([9, 6, 14, 18, 12, 13, 16, 12]) / 100)
    rooms = rng.choice([1, 2, 3, 4, 5], n, p=[0.15, 0.3, 0.3, 0.18, 0.07])
    built = pd.Timestamp("1900-01-01") + pd.to_timedelta(rng.beta(2.0, 1.3, n) * 44_000, unit="D")
    frame = pd.DataFrame(
        {
            "id": [f"{number:06d}" for number in rng.permutation(10 * n)[:n]],
            "area": (18 + 19 * rooms + rng.gamma(4.0, 3.0, n)).round(1),
            "rooms": rooms,
            "floor": rng.integers(0, 9, n),
            "district": district,
            "street": [f"{name} {rng.integers(1, 16)}" for name in district],
            "distance": (rng.gamma(2.5, 1.4, n) / np.array([DISTRICTS[name] for name in district])).round(2),
            "built": built.normalize(),
            "heating": rng.choice(HEATINGS, n, p=[0.45, 0.25, 0.15, 0.15]),
            "lift": rng.random(n) < 0.4,
            "renovated": np.where(rng.random(n) < 0.45, rng.integers(1995, 2024, n), np.nan),
        }
    )
    # Prices depend on area, district, age, floor and heating; the noise is larger for large, old flats.
    age = 2024 - frame["built"].dt.year.to_numpy()
    known = frame["renovated"].to_numpy()
    wear = np.where(np.isnan(known), age, np.minimum(age, 2024 - np.nan_to_num(known, nan=1900.0) + 15))
    metre = 4200 * frame["district"].map(DISTRICTS).to_numpy() * (1.0 - 0.28 * np.tanh(wear / 60))
    metre *= 1 - 0.03 * frame["distance"].to_numpy()
    climb = np.where(frame["lift"], 0.012, -0.015) * frame["floor"].to_numpy()
    heating = frame["heating"].map({"gas": 0.0, "district heating": 0.02, "heat pump": 0.06, "oil": -0.05}).to_numpy()
    expected = frame["area"].to_numpy() * metre * (1 + climb + heating)
    spread = 0.05 + 0.05 * np.tanh(age / 80) + 0.02 * (frame["area"].to_numpy() > 90)
    frame["price"] = np.round(expected * np.exp(spread * rng.standard_t(6, n)), -2)
    frame.loc[rng.random(n) < 0.08, "heating"] = None
    frame.loc[rng.random(n) < 0.05, "distance"] = np.nan
    return frame


FILES = ("flats.csv", "sold.csv", "offers.csv", "flats.bdkn", "predicted.csv", "index.html")
"""Names of the files that the demo writes."""

TRAINING, SOLD, OFFERED = 1500, 400, 6
"""Numbers of rows in the three tables: to train on, to evaluate on, and to predict."""


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write to; earlier files are replaced.")] = Path("report"),
    rows: Annotated[int, typer.Option(min=50, max=1_000_000, help="Number of flats to learn from.")] = TRAINING,
    effort: Annotated[str, typer.Option(help="fast, balanced or best.")] = "balanced",
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Seed of the table and of the networks.")] = 0,
) -> None:
    """Show what bdkn does with a table of flats: fit, predict, evaluate, report.

    Writes a table of invented flats, then runs the commands that you would type, each printed above its output. The
    first run compiles the training code, which takes about 10 seconds.

    Example:

        bdkn demo --out report
    """
    from bdkn.report import prepare_folder
    from bdkn.table_files import check_output

    require("pyarrow", "pandas", extra="files")
    require("matplotlib", "jinja2", extra="report")
    folder = prepare_folder(out)
    for name in FILES:  # before anything is computed
        check_output(folder / name)
    write_tables(folder, rows, seed)
    show_table(folder / "flats.csv")
    flats, sold, offers, model = (str(folder / name) for name in ("flats.csv", "sold.csv", "offers.csv", "flats.bdkn"))
    common = [] if effort == "balanced" else ["--effort", effort]
    common += [] if seed == 0 else ["--seed", str(seed)]
    steps = [
        ("Learn to predict the price.", ["fit", flats, "--target", "price", "--out", model, *common]),
        (
            "What will the flats on offer cost, and which will cost more than 400 000?",
            ["predict", model, offers, "--id", "id", "--above", "400000", "--out", str(folder / "predicted.csv")],
        ),
        ("Were the flats sold since then predicted well?", ["evaluate", model, sold, "--worst", "3"]),
        ("Write the page.", ["report", model, sold, "--out", str(folder / "index.html")]),
    ]
    for comment, words in steps:
        typer.echo(f"\n# {comment}\n$ bdkn {shlex.join(words)}")
        run_verb(context.find_root().command, words)
        if words[0] == "predict":
            show_table(folder / "predicted.csv")
    typer.echo(f"\nOpen {folder / 'index.html'} in a browser.")


def write_tables(folder: Path, rows: int, seed: int) -> None:
    """Write three tables of flats: to train on, to evaluate on, and to predict. The third has no prices."""
    import pyarrow as pa

    from bdkn.table_files import writing

    flats = make_flats(rows + SOLD + OFFERED, seed)
    parts = {
        "flats.csv": flats[:rows],
        "sold.csv": flats[rows : rows + SOLD],
        "offers.csv": flats[rows + SOLD :].drop(columns="price"),
    }
    for name, part in parts.items():
        with writing(folder / name) as file:
            table = pa.Table.from_pandas(part, preserve_index=False)
            days = pa.array(part["built"].to_numpy().astype("datetime64[D]"))  # 1987-05-01, without a time
            file.write(table.set_column(table.column_names.index("built"), "built", days))


def run_verb(command: Any, words: list[str]) -> None:
    """Run a command such as ``bdkn fit`` in this process; if it fails, exit with its exit code."""
    code = command.main(args=words, prog_name="bdkn", standalone_mode=False)
    if code:
        raise typer.Exit(int(code))


def show_table(path: Path, lines: int = 6) -> None:
    """Print the first rows of a table file."""
    from bdkn.table_files import read_table

    frame = read_table(path)
    rows = [tuple(map(cell, row)) for row in frame.head(lines).itertuples(index=False)]
    title = f"\n{path}, the first of {len(frame):,} rows" if len(frame) > lines else f"\n{path}"
    Screen().table(title, tuple(frame.columns), rows)
