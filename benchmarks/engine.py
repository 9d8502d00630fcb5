"""Measure the speed of training, compared with usual deep-ensemble code and with the peak of the hardware.

    python benchmarks/engine.py [--write] [--rounds 7]

All programs take turns in every round of one run, so that other work on the machine slows them alike; the table shows
medians, minima and maxima. Work is counted as 6 flops per weight and row (forward, input gradient, weight gradient), 4
in the first layer, which needs no input gradient; the peak is a 2048³ float32 matrix product on one thread. A member-
step is one training step of one network. ``--write`` writes the table to benchmarks/records/engine.json and
benchmarks/records/engine.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from bdkn.data.rows import Rows
from bdkn.environment import describe_machine
from bdkn.networks import Job, NetworkSpec, TrainingConfig, get_engine

MEMBERS, BATCH, RATE = 5, 32, 1e-3
RECORDS = Path(__file__).parent / "records"


@dataclass(frozen=True)
class Work:
    """The shape of the networks and of the rows to train on."""

    name: str
    rows: int = 7373
    inputs: int = 8
    hidden: tuple[int, ...] = (50, 50)
    batch: int = BATCH
    members: int = MEMBERS

    @property
    def spec(self) -> NetworkSpec:
        """The spec of the networks."""
        return NetworkSpec(n_inputs=self.inputs, hidden=self.hidden)

    @property
    def flops(self) -> float:
        """Flops of one epoch of one member."""
        weights = [n_out * n_in for n_out, n_in in self.spec.shapes]
        return self.rows * (6.0 * sum(weights) - 2.0 * weights[0])

    @property
    def steps(self) -> int:
        """Steps per epoch."""
        return -(-self.rows // self.batch)

    def data(self) -> Rows:
        """Return synthetic rows."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(self.rows, self.inputs)).astype(np.float32)
        y = np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=self.rows)
        return Rows(X, y)


BASE = Work("8 inputs, hidden (50, 50), batch 32, 5 members")
SHAPES = [
    BASE,
    Work("90 inputs", inputs=90),
    Work("hidden (128, 128, 128)", hidden=(128, 128, 128)),
    Work("50 members", members=50),
    Work("batch 256", batch=256),
    Work("90 inputs, hidden (128, 128, 128), batch 256", inputs=90, hidden=(128, 128, 128), batch=256),
]


def fused(work: Work, threads: int, epochs: int) -> float:
    """Return the seconds per member-step of the fused engine."""
    seeds, rows = np.random.SeedSequence(0).spawn(work.members), work.data()
    config = TrainingConfig(epochs=epochs, batch_size=work.batch, learning_rate=RATE)
    began = time.perf_counter()
    get_engine("fused").train([Job(work.spec, config, seed) for seed in seeds], rows, n_jobs=threads)
    return (time.perf_counter() - began) / (work.members * epochs * work.steps)


def gemm_peak() -> float:
    """Return the flop/s of a large float32 product on one thread."""
    a = np.random.default_rng(0).normal(size=(2048, 2048)).astype(np.float32)
    with threadpool_limits(1, user_api="blas"):
        a @ a
        times = []
        for _ in range(3):
            began = time.perf_counter()
            a @ a
            times.append(time.perf_counter() - began)
    return 2 * 2048**3 / min(times)


def torch_sequential(work: Work, threads: int, steps: int = 300) -> float:
    """Train one ``nn.Sequential`` after the other, as usual deep-ensemble code does; return seconds per member-step."""
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    rows = work.data()
    X, y = torch.from_numpy(rows.X), torch.from_numpy(rows.y.astype(np.float32))[:, None]
    widths = work.spec.widths
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(widths):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimizer, objective = torch.optim.Adam(model.parameters(), lr=RATE), nn.GaussianNLLLoss()

    def run(count: int) -> None:
        order = torch.randperm(len(X))
        for i in range(count):
            batch = order[(i % (work.steps - 1)) * work.batch :][: work.batch]
            out = model(X[batch])
            loss = objective(out[:, :1], y[batch], nn.functional.softplus(out[:, 1:]) + 1e-6)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    run(20)
    began = time.perf_counter()
    run(steps)
    return (time.perf_counter() - began) / steps


def torch_batched(work: Work, threads: int, steps: int = 300) -> float:
    """Train all members by batched products; return seconds per member-step."""
    import torch

    torch.set_num_threads(threads)
    rows, H = work.data(), work.members
    X, y = torch.from_numpy(rows.X), torch.from_numpy(rows.y.astype(np.float32))
    parameters = []
    for n_out, n_in in work.spec.shapes:
        bound = n_in**-0.5
        parameters.append(torch.empty(H, n_in, n_out).uniform_(-bound, bound).requires_grad_())
        parameters.append(torch.empty(H, 1, n_out).uniform_(-bound, bound).requires_grad_())
    optimizer = torch.optim.Adam(parameters, lr=RATE)

    def run(count: int) -> None:
        orders = torch.stack([torch.randperm(len(X)) for _ in range(H)])
        for i in range(count):
            start = (i % (work.steps - 1)) * work.batch
            batch = orders[:, start : start + work.batch]
            value = X[batch]
            for layer in range(0, len(parameters), 2):
                value = torch.baddbmm(parameters[layer + 1], value, parameters[layer])
                value = value.relu() if layer < len(parameters) - 2 else value
            variance = torch.nn.functional.softplus(value[..., 1]) + 1e-6
            loss = (variance.log() + (y[batch] - value[..., 0]) ** 2 / variance).mean(dim=1).sum() / 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    run(20)
    began = time.perf_counter()
    run(steps)
    return (time.perf_counter() - began) / (steps * H)


def jax_scan(work: Work) -> Callable[[], float]:
    """Return a timer of seconds per member-step in JAX: members by ``vmap``, steps by ``scan``, all under ``jit``."""
    import jax
    import jax.numpy as jnp

    rows, H = work.data(), work.members
    X, y = jnp.asarray(rows.X), jnp.asarray(rows.y.astype(np.float32))

    def initial(key: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
        layers = []
        for n_out, n_in in work.spec.shapes:
            key, kw, kb = jax.random.split(key, 3)
            bound = n_in**-0.5
            layers.append(
                (jax.random.uniform(kw, (n_in, n_out), minval=-bound, maxval=bound),
                 jax.random.uniform(kb, (n_out,), minval=-bound, maxval=bound))
            )  # fmt: skip
        return layers

    def loss(layers: list[tuple[jax.Array, jax.Array]], batch: jax.Array) -> jax.Array:
        value = X[batch]
        for W, b in layers[:-1]:
            value = jax.nn.relu(value @ W + b)
        out = value @ layers[-1][0] + layers[-1][1]
        v = jax.nn.softplus(out[:, 1]) + 1e-6
        return jnp.mean(jnp.log(v) + (y[batch] - out[:, 0]) ** 2 / v) / 2

    def step(state, batch):  # type: ignore[no-untyped-def]
        p, m, v, t = state
        g = jax.grad(loss)(p, batch)
        t = t + 1
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        p = jax.tree.map(lambda p, m, v: p - RATE * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), p, m, v)
        return (p, m, v, t), None

    full = (work.rows // work.batch) * work.batch

    def epoch(state, key):  # type: ignore[no-untyped-def]
        order = jax.random.permutation(key, work.rows)[:full].reshape(-1, work.batch)
        return jax.lax.scan(step, state, order)[0]

    train = jax.jit(jax.vmap(epoch))
    keys = jax.random.split(jax.random.key(0), H)
    p = jax.vmap(initial)(keys)
    zeros = jax.tree.map(jnp.zeros_like, p)
    state = (p, zeros, zeros, jnp.zeros(H))
    jax.block_until_ready(train(state, keys))  # compile time is not counted

    def timer(epochs: int = 3) -> float:
        current = state
        began = time.perf_counter()
        for _ in range(epochs):
            current = train(current, keys)
        jax.block_until_ready(current)
        return (time.perf_counter() - began) / (epochs * (full // work.batch) * H)

    return timer


def median(values: list[float]) -> dict[str, float]:
    """Return the median, the minimum and the maximum."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def contest(rounds: int) -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Time all programs in turn; return µs per member-step, and the peak in GFLOP/s."""
    jax_timer = jax_scan(BASE)
    contenders: dict[str, Callable[[], float]] = {
        "fused, 1 thread": lambda: fused(BASE, 1, 40),
        "fused, 2 threads": lambda: fused(BASE, 2, 40),
        "JAX vmap + scan + jit": jax_timer,
        "torch, batched over members, 1 thread": lambda: torch_batched(BASE, 1),
        "torch, batched over members, 2 threads": lambda: torch_batched(BASE, 2),
        "torch, one nn.Sequential at a time, 1 thread": lambda: torch_sequential(BASE, 1),
        "torch, one nn.Sequential at a time, 2 threads": lambda: torch_sequential(BASE, 2),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    peaks = []
    for _ in range(rounds):
        peaks.append(gemm_peak() / 1e9)
        for name, run in contenders.items():
            times[name].append(1e6 * run())
    return {name: median(values) for name, values in times.items()}, median(peaks)


def shapes(rounds: int) -> list[dict[str, object]]:
    """Return the share of the peak that the fused engine reaches on every shape, with one thread and two."""
    records: dict[str, dict[str, list[float]]] = {w.name: {"share": [], "scaling": []} for w in SHAPES}
    for _ in range(rounds):
        for work in SHAPES:
            epochs = max(10, round(2e10 / (work.flops * work.members)))
            one, two, peak = fused(work, 1, epochs), fused(work, 2, epochs), gemm_peak()
            records[work.name]["share"].append(work.flops / work.steps / one / peak)
            records[work.name]["scaling"].append(one / two)
    return [{"shape": name, **{k: median(v) for k, v in record.items()}} for name, record in records.items()]


def seconds(code: str) -> float:
    """Return the shortest of three wall times of a new process."""
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        times.append(time.perf_counter() - began)
    return min(times)


START = "from bdkn.networks.fused import prepare; prepare()"

MEMORY = """
import sys
from pathlib import Path
import numpy as np
from bdkn import BDKNRegressor

def bytes_of(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":"))

X = np.random.default_rng(0).standard_normal((463715, 90), dtype=np.float32)
y = X[:, 0] + X[:, 1]
model = BDKNRegressor(epochs=1, design=sys.argv[1], random_state=0)
model.fit(X[:2000], y[:2000])
before = bytes_of("VmRSS")
Path("/proc/self/clear_refs").write_text("5")  # forget the highest mark reached so far
model.fit(X, y)
print((bytes_of("VmHWM") - before) / X.nbytes)
"""


def start_up() -> dict[str, float]:
    """Return times of a new process after the code was compiled, and the memory a large fit adds, in units of X."""
    seconds(START)
    memory = {
        f"memory a fit on 463715 x 90 float32 adds, in sizes of X, design {design!r}": added_memory(design)
        for design in ("cross-fit", "in-sample")
    }
    return {
        "python -c pass, s": seconds("pass"),
        "import bdkn, s": seconds("import bdkn"),
        "second process ready to train, s": seconds(START),
        **memory,
    }


def added_memory(design: str) -> float:
    """Return the memory that a large fit adds, in units of X; cross-fitting also stores the held-out predictions."""
    command = [sys.executable, "-c", MEMORY, design]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def table(record: dict[str, object]) -> str:
    """Return the record as Markdown."""
    times: dict[str, dict[str, float]] = record["us_per_member_step"]  # type: ignore[assignment]
    peak: dict[str, float] = record["peak_gflops_one_thread"]  # type: ignore[assignment]
    best = times["fused, 2 threads"]["median"]
    flop = BASE.flops / BASE.steps
    lines = [
        f"Machine: {record['machine']}",
        "",
        f"Work: {BASE.rows} rows, {BASE.name}, float32. Peak of one thread: {peak['median']:.0f} GFLOP/s "
        f"({peak['low']:.0f} to {peak['high']:.0f}). Medians of {record['rounds']} alternating rounds.",
        "",
        "| program | µs per member-step (lowest to highest) | times fused, 2 threads | share of one thread's peak |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, t in times.items():
        share = flop / (t["median"] * 1e-6) / (peak["median"] * 1e9)
        spread = f"{t['median']:.1f} ({t['low']:.1f} to {t['high']:.1f})"
        lines.append(f"| {name} | {spread} | {t['median'] / best:.1f} | {share:.0%} |")
    lines += ["", "| shape | share of peak, one thread | two threads against one |", "| --- | ---: | ---: |"]
    for row in record["shapes"]:  # type: ignore[attr-defined]
        share, scaling = row["share"], row["scaling"]
        lines.append(
            f"| {row['shape']} | {share['median']:.0%} ({share['low']:.0%} to {share['high']:.0%}) "
            f"| {scaling['median']:.2f} ({scaling['low']:.2f} to {scaling['high']:.2f}) |"
        )
    lines += ["", "| start and memory | |", "| --- | ---: |"]
    lines += [f"| {name} | {value:.2f} |" for name, value in record["start"].items()]  # type: ignore[attr-defined]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and, with ``--write``, write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/records/")
    arguments = parser.parse_args()
    fused(BASE, 1, 1)
    times, peak = contest(arguments.rounds)
    record: dict[str, object] = {
        "machine": describe_machine(),
        "rounds": arguments.rounds,
        "us_per_member_step": times,
        "peak_gflops_one_thread": peak,
        "shapes": shapes(arguments.rounds),
        "start": start_up(),
    }
    print(table(record))
    if arguments.write:
        RECORDS.mkdir(exist_ok=True)
        (RECORDS / "engine.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        (RECORDS / "engine.md").write_text(
            "# Training speed\n\n`python benchmarks/engine.py --write`\n\n" + table(record), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
