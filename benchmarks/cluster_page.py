"""The page and the picture of the record of benchmarks/cluster.py.

    python benchmarks/cluster_page.py

makes both again from benchmarks/records/cluster.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "records"
Record = dict[str, Any]

_HEAD = """# Fits on a cluster

Made by `python benchmarks/cluster.py --write`; {machine}. {rows} rows: {fit}. Worker processes with one thread each on
two cores, which others used, too: CPU seconds tell more than those of the clock. Without a cluster, one thread trains.

"""

_MEASURED = (
    "workers",
    "networks divided",
    "clock s",
    "CPU s of workers, training",
    "CPU s of client and scheduler, training",
    "tasks",
    "passes",
    "MB between workers",
    "of these chunks",
    "MB to the client",
    "bits as without a cluster",
)

_COSTS = """
Training took {speed_up:.2f} times as long with 1 worker as with 2, the shortest of each; by the CPU seconds of the
busier worker it would be {shares:.2f} on idle cores. What the shuffle moves is not in this table: each row once,
{row_bytes} bytes.

| what | costs |
| --- | ---: |
| train a member, {folds} networks, on a row | {row_us:.2f} µs |
| train one of its networks on a row, divided | {part_us:.2f} µs |
| a pass over a chunk, besides, on the worker | {pass_ms:.1f} ms |
| a task, for client and scheduler | {task_ms:.2f} ms |
| encode and shuffle a row | {read_us:.2f} µs |
| summarize a row | {summary_us:.2f} µs |
| the state of a network | {state_kb:.0f} kB |

## 10⁹ rows, by these costs

A simulation (`benchmarks/cluster_model.py`): every member, or every network if there are more workers than members,
goes its own way through 7 630 chunks, waits where another one uses the worker, and moves at 100 MB/s. Chunks do not
move, and the scheduler serves one task at a time.

"""

_SIMULATED = (
    "members",
    "workers",
    "ways",
    "hours",
    "reading",
    "training",
    "workers busy, training",
    "scheduler busy",
    "GB a worker",
    "limit",
)


def page(record: Record) -> str:
    """Return the numbers as a page."""
    clusters = sorted(record["clusters"], key=lambda one: (one["divided"], one["workers"], one["seconds"]))
    measured = [_without(record["alone"]), *map(_measured, clusters)]
    simulated = map(_simulated, record["simulated"])
    text = _HEAD.format(**record) + _table(_MEASURED, measured) + _costs(record) + _table(_SIMULATED, simulated)
    one = next(one for one in record["simulated"] if (one["members"], one["workers"]) == (8, 100))
    first = f"What limits 100 workers first, with the default of 8 members: {one['limit']}."
    return f"{text}\n{first}\n\n![hours by workers](cluster.svg)\n"


def _without(alone: Record) -> list[str]:
    return ["none", "no", f"{alone['seconds']:.1f}", "", f"{alone['train: client']:.2f}", *[""] * 6]


def _measured(one: Record) -> list[str]:
    return [
        str(one["workers"]),
        "yes" if one["divided"] else "no",
        f"{one['seconds']:.1f}",
        f"{one['train: workers']:.2f}",
        f"{one['train: client']:.2f}",
        str(sum(one["tasks"].values())),
        str(one["tasks"]["after_pass"]),
        _mb(one, "workers"),
        _mb(one, "workers: chunk"),
        _mb(one, "client"),
        "yes" if one["same bits"] else "no",
    ]


def _simulated(one: Record) -> list[str]:
    hours = [f"{one[name]:.2f}" for name in ("hours", "reading_h", "training_h")]
    shares = [f"{one[name]:.0%}" for name in ("busy", "scheduler")]
    return [*(str(one[name]) for name in _SIMULATED[:3]), *hours, *shares, f"{one['worker_gb']:.1f}", one["limit"]]


def _table(names: Sequence[str], rows: Any) -> str:
    lines = [names, ["---:"] * (len(names) - 1) + ["---"], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _costs(record: Record) -> str:
    costs = record["costs"]
    return _COSTS.format(
        speed_up=_least(record, 1, "train: clock") / _least(record, 2, "train: clock"),
        shares=_least(record, 1, "train: busiest") / _least(record, 2, "train: busiest"),
        folds=record["folds"],
        row_bytes=costs["row_bytes"],
        row_us=1e6 * costs["row_s"],
        part_us=1e6 * costs["part_s"],
        pass_ms=1e3 * costs["pass_s"],
        task_ms=1e3 * costs["task_s"],
        read_us=1e6 * costs["read_s"],
        summary_us=1e6 * costs["summary_s"],
        state_kb=costs["state_bytes"] / 1e3,
    )


def _mb(one: Record, start: str) -> str:
    return f"{sum(size for kind, size in one['bytes'].items() if kind.startswith(start)) / 1e6:.1f}"


def _least(record: Record, workers: int, name: str) -> float:
    ours = [one for one in record["clusters"] if one["workers"] == workers and not one["divided"]]
    return float(min(one[name] for one in ours))


def picture(record: Record) -> Any:
    """Return the figure of hours, and of memory, by workers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for members, colour in ((8, "tab:blue"), (40, "tab:orange")):
        ours = [one for one in record["simulated"] if one["members"] == members]
        workers = [one["workers"] for one in ours]
        left.loglog(workers, [one["hours"] for one in ours], "o-", color=colour, label=f"{members} members, simulated")
        left.loglog(workers, [one["even_h"] for one in ours], ":", color=colour, label="if all workers were busy")
        left.loglog(workers, [one["scheduler_h"] for one in ours], "--", color=colour, label="the scheduler alone")
    right.loglog(workers, [one["worker_gb"] for one in ours], "o-", color="black")
    left.set(xlabel="workers of one thread", ylabel="hours", title="10⁹ rows × 20 columns")
    right.set(xlabel="workers of one thread", ylabel="GB of memory a worker", title="Chunks and work space")
    figure.legend(loc="outside lower center", ncols=2, fontsize=7)
    return figure


def write(record: Record) -> None:
    """Write the page and the picture."""
    (RECORDS / "cluster.md").write_text(page(record), encoding="utf-8")
    picture(record).savefig(RECORDS / "cluster.svg", metadata={"Date": None})


if __name__ == "__main__":
    write(json.loads((RECORDS / "cluster.json").read_text(encoding="utf-8")))
