"""The page and the picture of the record of benchmarks/cluster.py."""

from __future__ import annotations

from typing import Any

Record = dict[str, Any]

_HEAD = """# Fits on a cluster

Made by `python benchmarks/cluster.py --write`; {machine}. {rows} rows: {fit}. Worker processes with one thread each, on
two cores that others used, too: CPU seconds tell more than those of the clock. Without a cluster, one thread trains.

| workers | clock s | CPU s of workers, training | CPU s of client and scheduler, training | tasks | passes | \
MB between workers | of these chunks | MB to the client | bits as without a cluster |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""

_COSTS = """
Training took {speed_up:.2f} times as long with 1 worker as with 2, the shortest of each; by the CPU seconds of the
busier worker it would be {shares:.2f} on idle cores. What the shuffle moves is not in this table: each row once,
{row_bytes} bytes.

| what | costs |
| --- | ---: |
| train a network on a row | {row_us:.2f} µs |
| a pass over a chunk, besides, on the worker | {pass_ms:.1f} ms |
| a task, for client and scheduler | {task_ms:.2f} ms |
| encode and shuffle a row | {read_us:.2f} µs |
| summarize a row | {summary_us:.2f} µs |
| the state of a network | {state_kb:.0f} kB |

## 10⁹ rows, by these costs

A simulation (`benchmarks/cluster_model.py`): every network goes its own way through 7 630 chunks, waits where another
one uses the worker, and moves at 100 MB/s; chunks do not move; the scheduler serves one task at a time.

| members | workers | hours | reading | training | workers busy, training | scheduler busy | GB a worker | limit |
| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
"""


def page(record: Record) -> str:
    """Return the numbers as a page."""
    alone, costs, rows = record["alone"], record["costs"], []
    rows.append(f"| none | {alone['seconds']:.1f} | | {alone['train: client']:.2f} | | | | | | |")
    for one in sorted(record["clusters"], key=lambda one: (one["workers"], one["seconds"])):
        rows.append(
            f"| {one['workers']} | {one['seconds']:.1f} | {one['train: workers']:.2f} | {one['train: client']:.2f} | "
            f"{sum(one['tasks'].values())} | {one['tasks']['after_pass']} | {_mb(one, 'workers')} | "
            f"{_mb(one, 'workers: chunk')} | {_mb(one, 'client')} | {'yes' if one['same bits'] else 'no'} |"
        )
    told = _COSTS.format(
        speed_up=_least(record, 1, "train: clock") / _least(record, 2, "train: clock"),
        shares=_least(record, 1, "train: busiest") / _least(record, 2, "train: busiest"),
        row_bytes=costs["row_bytes"],
        row_us=1e6 * costs["row_s"],
        pass_ms=1e3 * costs["pass_s"],
        task_ms=1e3 * costs["task_s"],
        read_us=1e6 * costs["read_s"],
        summary_us=1e6 * costs["summary_s"],
        state_kb=costs["state_bytes"] / 1e3,
    )
    simulated = [
        f"| {one['members']} | {one['workers']} | {one['hours']:.2f} | {one['reading_h']:.2f} | "
        f"{one['training_h']:.2f} | {one['busy']:.0%} | {one['scheduler']:.0%} | {one['worker_gb']:.1f} | "
        f"{one['limit']} |"
        for one in record["simulated"]
    ]
    text = _HEAD.format(**record) + "\n".join(rows) + "\n" + told + "\n".join(simulated)
    return f"{text}\n\n![hours by workers](cluster.svg)\n"


def _mb(one: Record, start: str) -> str:
    return f"{sum(size for kind, size in one['bytes'].items() if kind.startswith(start)) / 1e6:.1f}"


def _least(record: Record, workers: int, name: str) -> float:
    return float(min(one[name] for one in record["clusters"] if one["workers"] == workers))


def picture(record: Record) -> Any:
    """Return the figure of hours, and of memory, by workers."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), layout="constrained")
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
    left.legend(fontsize=7)
    return figure
