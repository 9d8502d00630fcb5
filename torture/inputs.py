"""Send what users and enemies send to every public function, and judge each answer.

python torture/inputs.py [--write] [--scale S] [--only PART]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from record import Found, arguments, recording
from sent import outer, predictives, regressors
from sent.judge import Judge

Trial = Callable[[Judge, Any], None]

PARTS: dict[str, tuple[Trial, int]] = {
    "metrics": (predictives.try_metric, 6_000),
    "constructors": (predictives.try_constructor, 10_000),
    "methods": (predictives.try_method, 5_000),
    "joint": (predictives.try_joint, 3_000),
    "monitor": (predictives.try_monitor, 4_000),
    "parameters": (regressors.try_parameter, 4_000),
    "fits": (regressors.try_fit, 3_000),
    "baselines": (regressors.try_baseline, 400),
    "wide": (regressors.try_wide, 30),
    "questions": (regressors.try_question, 15_000),
    "figures": (outer.try_figure, 300),
    "pages": (outer.try_page, 150),
    "commands": (outer.try_command, 600),
    "experiments": (outer.try_experiment, 3_000),
    "model files": (outer.try_load, 500),
}
"""What is tried, and how many times."""

FOUND: list[Found] = []


def try_part(judge: Judge, trial: Trial, times: int) -> None:
    """Run a trial with so many examples of hypothesis; faults are kept by the judge."""

    @settings(
        max_examples=times,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def run(data: Any) -> None:
        trial(judge, data)

    run()


def run_parts(names: Iterable[str], scale: float) -> Judge:
    """Run some parts; return the judge."""
    judge = Judge()
    for name in names:
        trial, times = PARTS[name]
        try_part(judge, trial, max(1, round(times * scale)))
        print(f"{name}: {sum(judge.tried.values())} calls so far, {sum(judge.wrong.values())} wrong", flush=True)
    return judge


def main() -> None:
    """Run all parts and write the record."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--only", help="one part: " + ", ".join(PARTS))
    chosen = parser.parse_args()
    names = chosen.only.split(",") if chosen.only else list(PARTS)
    with recording("inputs", "Inputs", "python torture/inputs.py --write", FOUND, write=chosen.write) as record:
        judge = run_parts(names, chosen.scale)
        for part, tried in judge.tried.items():
            record.add(part, tried, judge.wrong[part], f"{judge.refused[part]:,} refused by one clear error")
        print(judge.show())


if __name__ == "__main__":
    main()
