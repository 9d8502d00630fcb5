"""Compare sufficient statistics by QR with the normal equations: speed for a million rows, and accuracy of bₙ.

    python benchmarks/sufficient_statistics.py [--write] [--rows 1000000] [--rounds 3]

Speed: the best of a few rounds in which all methods take turns, on one BLAS thread and on all. Accuracy: the relative
error of bₙ, under the isotropic prior with σ_β² = 1, 1e6 and 1e20, against the textbook formula in 80-digit arithmetic
on the same 200 rows. ``--write`` writes the numbers to benchmarks/records/sufficient_statistics.json.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import mpmath as mp
import numpy as np
from scipy.linalg import LinAlgError, cholesky, lapack
from threadpoolctl import threadpool_limits

from bdkn.environment import describe_machine
from bdkn.inference import Prior, Statistics, posterior
from bdkn.inference.statistics import Factor
from bdkn.typing import FloatArray

RECORDS = Path(__file__).parent / "records"
CHUNK = 2**15


def with_reference(Phi: FloatArray, y: FloatArray) -> Statistics:
    """Return the statistics of the library: tpqrt on chunks, with a reference if the fit is close."""
    return Statistics.from_rows(Phi, y)


def plain_qr(Phi: FloatArray, y: FloatArray) -> Statistics:
    """Return statistics by LAPACK's usual geqrf on the factor and each chunk stacked, without reference."""
    width = Phi.shape[1] + 1
    root = np.zeros((width, width))
    for rows in chunks(len(y), width):
        stacked = np.empty((width + len(y[rows]), width), order="F")
        stacked[:width], stacked[width:, :-1], stacked[width:, -1] = root, Phi[rows], y[rows]
        root = np.triu(lapack.dgeqrf(stacked, overwrite_a=1)[0][:width])
    return Statistics(Factor(root, np.zeros(width - 1)), float(len(y)), 0.0)


def normal_equations(Phi: FloatArray, y: FloatArray) -> Statistics:
    """Return statistics by the Cholesky factor of the Gram matrix of [Φ, y], summed over chunks."""
    width = Phi.shape[1] + 1
    gram = np.zeros((width, width))
    for rows in chunks(len(y), width):
        block = np.column_stack([Phi[rows], y[rows]])
        gram += block.T @ block
    return Statistics(Factor(cholesky(gram), np.zeros(width - 1)), float(len(y)), 0.0)


METHODS = {"QR with reference": with_reference, "QR, geqrf": plain_qr, "normal equations": normal_equations}


def chunks(rows: int, width: int) -> list[slice]:
    """Return slices of the size that the library uses."""
    step = CHUNK // width
    return [slice(start, start + step) for start in range(0, rows, step)]


def speed(rows: int, rounds: int) -> list[dict[str, object]]:
    """Return the seconds, nanoseconds per row and bytes per second of each method."""
    records = []
    for members in (5, 50):
        rng = np.random.default_rng(0)
        Phi = rng.normal(size=(rows, members))
        y = Phi.sum(axis=1) + rng.normal(size=rows)
        for threads in (1, None):
            best = dict.fromkeys(METHODS, np.inf)
            with threadpool_limits(threads):
                for _ in range(rounds):
                    for name, method in METHODS.items():
                        start = time.perf_counter()
                        method(Phi, y)
                        best[name] = min(best[name], time.perf_counter() - start)
            for name, seconds in best.items():
                size = {"method": name, "rows": rows, "members": members, "threads": threads or "all"}
                rate = {"ns_per_row": seconds / rows * 1e9, "gb_per_s": 8e-9 * rows * (members + 1) / seconds}
                records.append({**size, **rate})
    return records


def designs() -> dict[str, tuple[FloatArray, FloatArray]]:
    """Return design matrices and targets, from easy to difficult ones."""
    rng = np.random.default_rng(1)
    member, noise = rng.normal(size=200), rng.normal(size=200)
    spread = rng.normal(size=(200, 5))
    offset = 1e6 + 1e-3 * noise
    return {
        "independent": (spread, spread.sum(axis=1) + 0.1 * noise),
        "members agree to 1e-4": (member[:, None] + 1e-4 * spread, member + 0.1 * noise),
        "members agree to 1e-8": (member[:, None] + 1e-8 * spread, member + 0.1 * noise),
        "fit to 1e-6": (spread, spread.sum(axis=1) + 1e-6 * noise),
        "fit to rounding": (spread, spread @ rng.normal(size=5)),
        "mean 1e6, spread 1e-3": (np.column_stack([np.ones(200), spread]), offset),
    }


def exact_b(Phi: FloatArray, y: FloatArray, variance: float) -> float:
    """Return bₙ by the textbook formula in 80 digits."""
    with mp.workdps(80):
        Φ, t = mp.matrix(Phi.tolist()), mp.matrix(y.tolist())
        Λ = mp.eye(Φ.cols) / mp.mpf(variance) + Φ.T * Φ
        moment = Φ.T * t
        return float(((t.T * t)[0] - (moment.T * mp.lu_solve(Λ, moment))[0]) / 2)


def digits() -> list[dict[str, object]]:
    """Return the relative error of bₙ of each method on each design."""
    records = []
    for design, (Phi, y) in designs().items():
        for variance in (1.0, 1e6, 1e20):
            exact = exact_b(Phi, y, variance)
            for name, method in METHODS.items():
                try:
                    b = posterior(method(Phi, y), Prior.isotropic(Phi.shape[1], variance)).b
                except LinAlgError:
                    b = np.nan  # the Gram matrix is not positive definite to working precision
                records.append({"design": design, "variance": variance, "method": name, "error": abs(b / exact - 1.0)})
    return records


def main() -> None:
    """Measure, print and, with ``--write``, write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    machine, fast, exact = describe_machine(), speed(arguments.rows, arguments.rounds), digits()
    print(machine)
    print(f"\n{'method':<20}{'N':>10}{'H':>5}{'threads':>9}{'ns/row':>10}{'GB/s':>8}")
    for r in fast:
        print(
            f"{r['method']:<20}{r['rows']:>10}{r['members']:>5}{r['threads']:>9}{r['ns_per_row']:>10.1f}{r['gb_per_s']:>8.2f}"
        )
    print(f"\n{'design':<24}{'σ_β²':>8}" + "".join(f"{name:>20}" for name in METHODS))
    for start in range(0, len(exact), len(METHODS)):
        row = exact[start : start + len(METHODS)]
        print(f"{row[0]['design']:<24}{row[0]['variance']:>8.0e}" + "".join(f"{r['error']:>20.1e}" for r in row))
    if arguments.write:
        record = {"machine": machine, "speed": fast, "digits": exact}
        text = json.dumps(record, indent=1).replace("NaN", "null")
        (RECORDS / "sufficient_statistics.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
