"""Send what users and enemies send to every public function, and judge each answer.

python tests/stress/inputs.py [--write] [--scale S] [--only PART] [--seed N]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from record import Found, arguments, read_records, recording
from sent import outer, predictives, regressors
from sent.judge import Judge

Trial = Callable[[Judge, Any], None]

PARTS: dict[str, tuple[Trial, int]] = {
    "metrics": (predictives.try_metric, 8_000),
    "constructors": (predictives.try_constructor, 5_000),
    "methods": (predictives.try_method, 5_000),
    "joint": (predictives.try_joint, 2_000),
    "monitor": (predictives.try_monitor, 2_000),
    "parameters": (regressors.try_parameter, 3_000),
    "fits": (regressors.try_fit, 3_000),
    "wide": (regressors.try_wide, 15),
    "questions": (regressors.try_question, 10_000),
    "figures": (outer.try_figure, 200),
    "pages": (outer.try_page, 150),
    "commands": (outer.try_command, 600),
    "experiments": (outer.try_experiment, 2_000),
    "model files": (outer.try_load, 300),
}
"""What is tried, and how many times."""

FOUND = [
    Found(
        "The CRPS of a mixture at an error of 1e308, and the mean CRPS of a monitor, warned of an overflow; long "
        "doubles of 1e4000 as targets, too, and the error proposed to divide by inf.",
        "What overflows is computed in other units, or refused without a warning.",
    ),
    Found(
        "Weights of 1e-300 gave samples that are no numbers, weights of 5e-324 an OverflowError, weights of 1e300 an "
        "error about features.",
        "Weights count rows: sums below 1e-6 and above 1e15 are refused before the fit, with the factor to use.",
    ),
    Found(
        "Targets near 1e308 overflowed in the fit, and the R² of targets of 1e300 or 1e-308 in its squares.",
        "Targets beyond 1e305 are refused by row, members of a stack that overflow are left out; R², RMSE and the "
        "standard deviation are computed in units in which squares do not overflow.",
    ),
    Found(
        "patience=10**30 was an OverflowError, an array as coverage an error about truth values.",
        "One check of numbers: integers fit into 64 bits, arrays and NA are no numbers; long values are shown short.",
    ),
    Found(
        "n_members=10**6, hidden layers of 10**12 units and 10**12 draws took memory until the process was killed.",
        "The memory that networks, curves, statistics and draws need is compared with that of the machine, the "
        "container and the process before anything is computed; the error says how much it would be.",
    ),
    Found(
        "Masked arrays lost their mask; NaT became -9.2e18; complex numbers lost a part; pandas' NA failed inside.",
        "One reader of numbers for targets, weights, quantiles, thresholds and parameters of distributions names the "
        "row; errors about tables name row and column.",
    ),
    Found(
        "A stack with members of its own failed inside of them on frames with missing values, text or dates.",
        "The error names the member and the column; tables of pyarrow become pandas frames; other shapes are refused.",
    ),
    Found(
        "A member that predicts 1e200 for a row overflowed in the combination.",
        "DivergedError names the member.",
    ),
    Found(
        "The mixture of Student-t and Gaussians had the density 0 at nan, and the Student-t with infinitely many "
        "degrees of freedom that of a Student-t far out.",
        "nan at nan; the Gaussian's density.",
    ),
    Found(
        "partial_dependence(coverage=1) subtracted infinities.",
        "The ends are infinite or the bounds of the target.",
    ),
    Found(
        "Monitor.from_json of any other text raised KeyError, TypeError or RecursionError; affine took what is no "
        "number; figures took levels, bins and numbers of rows that are none.",
        "One error that names the argument.",
    ),
    Found(
        "report(path=) and `bdkn demo --out` noticed after all work that a file could not be written; names of 300 "
        "characters or with a zero byte were found by the operating system.",
        "Targets of all files are checked first.",
    ),
]


def try_part(judge: Judge, trial: Trial, times: int, number: int = 0) -> None:
    """Run a trial with so many examples of hypothesis, those of a seed; faults are kept by the judge."""

    @seed(number)
    @settings(
        max_examples=times,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def run(data: Any) -> None:
        trial(judge, data)

    run()


def run_parts(names: Iterable[str], scale: float, number: int = 0) -> Judge:
    """Run some parts; return the judge."""
    judge = Judge()
    for name in names:
        trial, times = PARTS[name]
        try_part(judge, trial, max(1, round(times * scale)), number)
        print(f"{name}: {sum(judge.tried.values())} calls so far, {sum(judge.wrong.values())} wrong", flush=True)
        if judge.faults:
            print(judge.show(), flush=True)
    return judge


def main() -> None:
    """Run all parts and write the record."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--only", help="one part: " + ", ".join(PARTS))
    parser.add_argument("--seed", type=int, default=0, help="other examples (default 0)")
    chosen = parser.parse_args()
    names = chosen.only.split(",") if chosen.only else list(PARTS)
    with recording("inputs", "Inputs", "python tests/stress/inputs.py --write", FOUND, write=chosen.write) as record:
        judge = run_parts(names, chosen.scale, chosen.seed)
        for former in (line for one in read_records() if one.name == "inputs" and chosen.only for line in one.figures):
            if former.what not in judge.tried:
                record.figures.append(former)
        for part, tried in judge.tried.items():
            record.add(part, tried, judge.wrong[part], f"{judge.refused[part]:,} refused by one clear error")


if __name__ == "__main__":
    main()
