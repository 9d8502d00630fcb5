"""Compare the closed forms with the same formulas in 120 digits, on random ill-conditioned problems.

    python tests/stress/closed_forms.py [--write] [--scale 1] [--seed 0]

Features have columns of sizes from 1e-8 to 1e8, nearly equal ones (apart by 1 to 1e-13 of their size, or equal; what
lies between the library takes for equal), dead ones, an offset of up to 1e6 standard deviations, and now and then fewer
rows than columns; rows have precisions over up to twelve orders of magnitude; the prior variance is between 1e-12 and
1e20; some targets are fitted exactly. The reference takes the floating-point inputs as exact.

Errors are in units that matter to a user: of a prediction's location in units of its own scale plus one part in 1e8 of
the sizes of the products that it sums, of a scale and of b relative to themselves, of the log evidence absolute up to
one and relative above. They may grow in three places: leave-one-out predictions in closed form divide by 1 - h, where h
is the leverage of the row, and may err by 1e-10 / (1 - h); where the fit is exact but for 1e-7 of the targets or less,
errors may be 1e-20 Σ w y² / b; the log evidence of targets that are nearly combinations of one another may err by 1e-15
times the condition number of b.

A trial is wrong if one of these errors exceeds 1e-6 and also exceeds a hundred times what the exact answer itself
changes by if Φ, y and the precisions are rounded otherwise (each number moved by up to one part in 2^52): what rounding
of the inputs decides, no method knows. The remark says how many trials needed the second clause.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bdkn.inference import Prior, Spectrum, Statistics, block_posterior, log_evidence, posterior
from bdkn.typing import FloatArray
from record import Found, arguments, recording

sys.path.append(str(Path(__file__).parents[1] / "inference"))
import mp_reference

TOLERANCE = 1e-6
FOUND: list[Found] = []


class Problem(NamedTuple):
    """One regression problem with its prior."""

    Phi: FloatArray
    y: FloatArray
    precision: FloatArray
    variance: float
    mean: float
    a0: float
    b0: float


def problem(rng: np.random.Generator, n_targets: int | None = None) -> Problem:
    """Return a random ill-conditioned problem of few rows and columns, whose rank is beyond doubt."""
    while True:
        drawn = _any_problem(rng, n_targets)
        columns = np.unique(drawn.Phi * np.sqrt(drawn.precision)[:, None], axis=1)
        size = np.linalg.norm(columns, axis=0)
        s = np.linalg.svd(columns[:, size > 0.0] / size[size > 0.0], compute_uv=False)
        if len(s) and s[-1] > 1e-13 * s[0]:
            return drawn


def _any_problem(rng: np.random.Generator, n_targets: int | None) -> Problem:
    """Return a random ill-conditioned problem of few rows and columns."""
    rows, H = int(rng.integers(1, 13)), int(rng.integers(1, 6))
    Phi = _columns(rng, rows, H)
    size = (rows,) if n_targets is None else (rows, n_targets)
    noise = 10.0 ** rng.uniform(-9, 1) * (rng.random() > 0.1)
    β = rng.normal(size=(H, *size[1:])) / np.maximum(np.linalg.norm(Phi, axis=0), 1e-300).reshape(
        -1, *[1] * len(size[1:])
    )
    y = Phi @ β * np.sqrt(rows) + noise * rng.normal(size=size)
    y = y + rng.choice([0.0, 0.0, 1.0, 1e6]) * rng.normal()
    spread = rng.choice([0.0, 1.0, 6.0])
    a0, b0 = ((0.0, 0.0), (1.5, 10.0 ** rng.uniform(-6, 2)))[int(rng.integers(2))]
    precision = 10.0 ** rng.uniform(-spread, spread, rows)
    return Problem(Phi, y, precision, 10.0 ** rng.uniform(-12, 20), rng.choice([0.0, 0.2, 1.0 / H]), a0, b0)


def _columns(rng: np.random.Generator, rows: int, H: int) -> FloatArray:
    """Return features of all sizes, nearly equal, dead or far from zero."""
    Phi = rng.normal(size=(rows, H))
    kind = rng.integers(4)
    if kind == 1:  # members that agree, as trained networks do
        Phi = Phi[:, :1] + 10.0 ** -rng.uniform(0, 16) * Phi
    if kind == 2:
        Phi[:, -1] = Phi[:, 0]
    if rng.random() < 0.1:
        Phi[:, rng.integers(H)] = 0.0
    if rng.random() < 0.2:
        Phi += 10.0 ** rng.uniform(0, 6)
    return np.asarray(Phi * 10.0 ** rng.uniform(-8, 8, H) if rng.random() < 0.5 else Phi)


def _weight_sizes(Phi: FloatArray, weights: FloatArray) -> FloatArray:
    """Return for each weight the one with which its column would be as large as the largest product."""
    norm = np.linalg.norm(Phi, axis=0)
    return np.asarray(np.max(norm * np.abs(weights)) / np.where(norm > 0.0, norm, 1.0) + np.abs(weights))


Answer = dict[str, FloatArray]


def _moved(rng: np.random.Generator, values: FloatArray) -> FloatArray:
    """Return the values as if they had been rounded otherwise."""
    return np.asarray(values * (1.0 + 2.0**-52 * rng.uniform(-1.0, 1.0, values.shape)))


@dataclass(frozen=True)
class OneTarget:
    """Posterior, predictions and evidence of one target."""

    case: Problem
    new: FloatArray
    chunk_rows: int

    @classmethod
    def draw(cls, rng: np.random.Generator) -> OneTarget:
        """Return a random trial."""
        case = problem(rng)
        other = case.Phi[:1] + 0.1 * rng.normal(size=case.Phi.shape[1]) * np.abs(case.Phi).max(axis=0)
        return cls(case, np.vstack([case.Phi, other]), int(rng.integers(1, 14)))

    @property
    def _prior(self) -> Prior:
        case = self.case
        return Prior.isotropic(case.Phi.shape[1], case.variance, case.mean, case.a0, case.b0)

    def computed(self) -> Answer:
        """Return what the library computes."""
        case, prior = self.case, self._prior
        stats = Statistics.from_rows(case.Phi, case.y, precision=case.precision, chunk_rows=self.chunk_rows)
        post = posterior(stats, prior)
        predicted, evidence = post.predictive(self.new), [log_evidence(stats, prior)] * 2
        if not (case.a0 or case.b0):
            evidence[1] = float(Spectrum.of(stats, prior.mean).log_evidence(1.0 / prior.precision[0, 0]))
        return {
            "b": np.array([post.b]),
            "weights": post.mean,
            "scale of weights": post.weights().scale,
            "location": predicted.loc,
            "scale": predicted.scale,
            "log evidence": np.array(evidence),
        }

    def exact(self, rng: np.random.Generator | None = None) -> tuple[Answer, Answer]:
        """Return the answers in many digits and the units of errors; with ``rng`` for inputs rounded otherwise."""
        case, prior = self.case, self._prior
        Phi, y, w = (case.Phi, case.y, case.precision) if rng is None else (_moved(rng, v) for v in case[:3])
        given = {"mean": prior.mean, "precision": prior.precision, "a0": case.a0, "b0": case.b0}
        found = mp_reference.solve(Phi, y, new=self.new, w=w, **given)
        spread = np.sqrt(np.diag(found.scale_matrix))
        evidence = np.full(2, found.log_evidence)
        answer = {
            "b": np.array([found.b]),
            "weights": found.mean,
            "scale of weights": spread,
            "location": found.loc,
            "scale": found.scale,
            "log evidence": evidence,
        }
        digits = 1.0 + 1e-14 * float(np.sum(case.precision * case.y**2)) / found.b
        units = {
            "b": answer["b"],
            "weights": spread + 1e-8 * _weight_sizes(Phi, found.mean),
            "scale of weights": spread,
            "location": found.scale + 1e-8 * np.abs(self.new) @ np.abs(found.mean),
            "scale": found.scale,
            "log evidence": np.maximum(1.0, np.abs(evidence)),
        }
        return answer, {name: digits * unit for name, unit in units.items()}


@dataclass(frozen=True)
class SeveralTargets:
    """Posterior, predictions and evidence of a block of targets with a proper prior of their noise."""

    case: Problem
    b0: FloatArray

    @classmethod
    def draw(cls, rng: np.random.Generator) -> SeveralTargets:
        """Return a random trial."""
        case = problem(rng, int(rng.integers(1, 4)))
        size = float(np.sum(case.precision[:, None] * case.y**2)) + 1e-12
        return cls(case, 10.0 ** rng.uniform(-6, 0) * size * np.eye(case.y.shape[1]))

    @property
    def _prior(self) -> Prior:
        return Prior.isotropic(self.case.Phi.shape[1], self.case.variance, self.case.mean, 1.5, self.b0)

    def computed(self) -> Answer:
        """Return what the library computes."""
        stats = Statistics.from_rows(self.case.Phi, self.case.y, precision=self.case.precision)
        post = block_posterior(stats, self._prior)
        predicted, evidence = post.predictive(self.case.Phi), log_evidence(stats, post)
        return {"b": post.b, "location": predicted.loc, "shape": predicted.shape, "log evidence": np.array([evidence])}

    def exact(self, rng: np.random.Generator | None = None) -> tuple[Answer, Answer]:
        """Return the answers in many digits and the units of errors; with ``rng`` for inputs rounded otherwise."""
        case, prior = self.case, self._prior
        Phi, y, w = (case.Phi, case.y, case.precision) if rng is None else (_moved(rng, v) for v in case[:3])
        start = np.repeat(prior.mean[:, None], y.shape[1], axis=1)
        given = {"mean": start, "precision": prior.precision, "a0": 1.5, "b0": self.b0}
        found = mp_reference.solve_block(Phi, y, new=case.Phi, w=w, **given)
        deviation, evidence = np.sqrt(np.diagonal(found.shape, axis1=1, axis2=2)), np.array([found.log_evidence])
        answer = {"b": found.b, "location": found.loc, "shape": found.shape, "log evidence": evidence}
        units = {
            "b": np.full_like(found.b, np.diag(found.b).max()),
            "location": deviation + 1e-8 * np.abs(case.Phi) @ np.abs(found.mean),
            "shape": deviation[:, :, None] * deviation[:, None, :],
            "log evidence": np.maximum(1.0, np.abs(evidence)) + 1e-9 * np.linalg.cond(found.b),
        }
        return answer, units


@dataclass(frozen=True)
class LeftOut:
    """The prediction of one row given all others, in closed form, against a fit to the others."""

    case: Problem
    b0: float
    row: int

    @classmethod
    def draw(cls, rng: np.random.Generator) -> LeftOut:
        """Return a random trial."""
        case = problem(rng)
        while len(case.y) < 2:
            case = problem(rng)
        b0 = float(np.sum(case.precision * case.y**2)) * 10.0 ** rng.uniform(-6, 0) + 1e-12
        return cls(case._replace(variance=min(case.variance, 1e6)), b0, int(rng.integers(len(case.y))))

    @property
    def _prior(self) -> Prior:
        return Prior.isotropic(self.case.Phi.shape[1], self.case.variance, self.case.mean, 1.5, self.b0)

    def computed(self) -> Answer:
        """Return what the library computes."""
        case, i = self.case, self.row
        post = posterior(Statistics.from_rows(case.Phi, case.y, precision=case.precision), self._prior)
        given = post.leave_one_out(case.Phi, case.y, precision=case.precision)
        return {"location": given.loc[i : i + 1], "scale": given.scale[i : i + 1]}

    def exact(self, rng: np.random.Generator | None = None) -> tuple[Answer, Answer]:
        """Return the answers in many digits and the units of errors; with ``rng`` for inputs rounded otherwise."""
        case, prior, i = self.case, self._prior, self.row
        Phi, y, w = (case.Phi, case.y, case.precision) if rng is None else (_moved(rng, v) for v in case[:3])
        others = np.arange(len(y)) != i
        given = {"mean": prior.mean, "precision": prior.precision, "a0": 1.5, "b0": self.b0, "w": w[others]}
        found = mp_reference.solve(Phi[others], y[others], new=Phi[i : i + 1], **given)
        scale = np.sqrt(found.scale**2 + (1.0 / w[i] - 1.0) * found.b / found.a)
        left = found.b / found.a / (w[i] * scale**2)
        units = {"location": scale + 1e-8 * np.abs(Phi[i : i + 1]) @ np.abs(found.mean), "scale": scale}
        units = {name: unit * (1.0 + 1e-4 / left) for name, unit in units.items()}
        return {"location": found.loc, "scale": scale}, units


def _errors(given: Answer, expected: Answer, units: Answer) -> dict[str, float]:
    return {name: float(np.max(np.abs(given[name] - expected[name]) / (units[name] + 1e-280))) for name in given}


def errors_of(trial: Any, rng: np.random.Generator) -> tuple[dict[str, float], bool]:
    """Return the errors of a trial that rounding of the inputs does not explain, and whether it explained any."""
    expected, units = trial.exact()
    errors = _errors(trial.computed(), expected, units)
    if all(error <= TOLERANCE for error in errors.values()):
        return errors, False
    for _ in range(5):
        moved = _errors(trial.exact(rng)[0], expected, units)
        errors = {name: 0.0 if error <= 100.0 * moved[name] else error for name, error in errors.items()}
    return errors, True


def compare(problems: int, kind: Any, seed: int) -> tuple[int, str]:
    """Return how many problems had an error above the tolerance, and the largest error of each kind."""
    largest: dict[str, float] = {}
    wrong = decided = 0
    for number in range(problems):
        rng = np.random.default_rng([seed, number])
        errors, by_rounding = errors_of(kind.draw(rng), rng)
        if not all(error <= TOLERANCE for error in errors.values()):
            wrong += 1
            print(f"problem {number}: {errors}", flush=True)
        decided += by_rounding
        for name, error in errors.items():
            largest[name] = max(largest.get(name, 0.0), error)
    told = ", ".join(f"{name} {error:.0e}" for name, error in largest.items())
    return wrong, f"{decided} decided by the rounding of the inputs; largest errors of the others: {told}"


def main() -> None:
    """Run the comparison and write the record where asked for."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random problems (default 0)")
    chosen = parser.parse_args()
    tasks = (
        ("posterior, predictions and evidence of one target", 10_000, OneTarget),
        ("the same for one to three targets", 2_000, SeveralTargets),
        ("leave-one-out predictions", 2_000, LeftOut),
    )
    title, command = "Closed forms against 120 digits", "python tests/stress/closed_forms.py --write"
    with recording("closed_forms", title, command, FOUND, write=chosen.write) as record:
        for what, number, kind in tasks:
            trials = max(1, round(number * chosen.scale))
            record.add(what, trials, *compare(trials, kind, chosen.seed))


if __name__ == "__main__":
    main()
