"""What the paper leaves open, and printed numbers that are impossible, each with evidence from our records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log

from bdkn_paper import paper
from bdkn_paper.analysis.comparison import Comparison, impossible
from bdkn_paper.analysis.markdown import Table
from bdkn_paper.analysis.nll_floor import CONSTANT, CONSTANT_VARIANCE, floor
from bdkn_paper.analysis.results import Results, dataset_title, gather, method_title
from bdkn_paper.analysis.sample import shown
from bdkn_paper.pages.section import Section
from bdkn_paper.pages.variants import variants_section
from bdkn_paper.paper import METRICS
from bdkn_paper.store import Record

SETTINGS = (1, 2)
STEPS, RATE = 5, 0.1
"""Steps and learning rate of Adam, with which the paper optimises the prior variance, starting at 1."""

PRIORS = {"bdkn-exact": "exact maximum of the evidence", "bdkn-fixed": "fixed at 1"}
"""The methods of the experiment "prior"."""

NAVAL_SD = 0.01472
"""Standard deviation of the target of Naval."""


def ambiguities(records: Sequence[Record]) -> list[Section]:
    """Return the sections that the records give evidence for."""
    kinds: tuple[Callable[[Sequence[Record]], Section | None], ...] = (
        raw_targets,
        prior_in_log_space,
        constant_on_naval,
        below_the_floor,
        sarcos_leak,
        variants_section,
    )
    return [section for kind in kinds if (section := kind(records)) is not None]


def raw_targets(records: Sequence[Record]) -> Section | None:
    """Compare targets in their own units with standardised ones, from the experiment "standardised"."""
    pairs = [
        pair
        for setting in SETTINGS
        for method in ("bdkn", "de")
        for dataset in gather(records, "standardised").datasets
        for metric in METRICS
        if (pair := _pair(records, setting, method, dataset, metric))
    ]
    if not pairs:
        return None
    raw, scaled = (sum(cell.hit for cell in cells) for cells in zip(*pairs, strict=True))
    text = (
        "The paper says that inputs are standardised, but says nothing about targets. With targets in their own units, "
        f"{raw} of these {len(pairs)} scores agree with the paper; with standardised targets, {scaled} do."
    )
    columns = ("setting", "method", "data set", "metric", "paper", "raw", "standardised")
    table = Table("Raw and standardised targets", columns, tuple(_pair_row(*pair) for pair in pairs))
    return Section("Targets are not standardised", text, (table,))


def prior_in_log_space(records: Sequence[Record]) -> Section | None:
    """Return the prior variances of our fits in the paper's settings, and scores with other prior variances."""
    scales = [
        record["model"]["prior_scale"]
        for setting in SETTINGS
        for (_, method), done in gather(records, f"setting{setting}").done.items()
        if method == "bdkn"
        for record in done
    ]
    if not scales:
        return None
    end = exp(STEPS * RATE)
    near = sum(abs(log(scale / end)) < 0.01 for scale in scales)
    text = (
        f"According to the paper, the prior variance σ_β² starts at 1 and takes {STEPS} steps of Adam at rate {RATE}. "
        "It does not say whether the parameter is σ_β² or its logarithm. The first steps of Adam are as long as the "
        f"rate: log σ_β² ends near {STEPS * RATE:g} and σ_β² near {end:.3f}; with σ_β² as the parameter it would end "
        f"near {1 + STEPS * RATE:g}. We use the logarithm: {near} of our {len(scales)} fits end within 1% of "
        f"{end:.3f}, all between {min(scales):.3f} and {max(scales):.3f}. So the number of steps determines the "
        "result, not the evidence."
    )
    return Section("The prior variance is optimised in log space", text, _prior_tables(records))


def constant_on_naval(records: Sequence[Record]) -> Section | None:
    """Compare the scores of BDKN on Naval in setting 1 with those of a constant prediction."""
    results = gather(records, "setting1")
    rmse, nll = (results.sample("naval", "bdkn", metric) for metric in METRICS)
    if rmse is None or nll is None or abs(rmse.mean / NAVAL_SD - 1) > 0.05:
        return None
    printed = {metric: shown(paper.scores()[1, metric, "naval", "bdkn"], 2) for metric in METRICS}
    song = ", ".join(
        f"{method_title(m)} {paper.scores()[1, 'rmse', 'song', m].mean:.2f}" for m in ("bdkn", "de", "vbll")
    )
    text = (
        f"On Naval in setting 1, BDKN predicts a constant. The standard deviation of the target is {NAVAL_SD:.5f}, "
        f"and our RMSE is {rmse.mean:.5f} ± {rmse.std:.5f}. A constant has an NLL of ½ log(2πe sd²) = "
        f"{CONSTANT + log(NAVAL_SD):.2f}, and ours is {shown(nll)}. The paper prints {printed['rmse']} and "
        f"{printed['nll']}, and underlines the RMSE as second best. The printed scores for Song in setting 1 look "
        f"similar ({song}, others reach 9), but its data were not available to test this."
    )
    return Section("A constant prediction is second best", text)


def below_the_floor(records: Sequence[Record]) -> Section | None:
    """Return the printed NLLs below the floor, and how far ours are above it."""
    cells = [(setting, *cell) for setting in SETTINGS for cell in impossible(setting)]
    ours = [found for setting in SETTINGS for found in _excess(gather(records, f"setting{setting}"))]
    if not ours:
        return None
    least, dataset, setting = min(ours)
    text = (
        "Predictions with constant variance cannot have an NLL below ½ log(2πe RMSE²), and the variance of BDKN is "
        "constant except for a share of about H/N. In our records, its mean NLL minus this floor is at least "
        f"{least:+.4f} (on {dataset_title(dataset)}, {setting}). The following printed NLLs are below the floor, "
        "whatever the rounding of their digits. This is possible for methods whose variance varies with the inputs."
    )
    columns = ("setting", "method", "data set", "RMSE", "NLL", "below the floor by", "possible?")
    table = Table("Printed NLLs below the floor", columns, tuple(_floor_row(*cell) for cell in cells))
    return Section("Some printed NLLs are impossible", text, (table,))


def sarcos_leak(records: Sequence[Record]) -> Section | None:
    """Compare Sarcos as in the paper with Sarcos without test rows among the training rows."""
    rows = [
        row
        for setting in SETTINGS
        for method in ("bdkn", "de")
        for metric in METRICS
        if (row := _leak_row(gather(records, f"setting{setting}"), setting, method, metric))
    ]
    if not rows:
        return None
    text = (
        "Every row of the official test file of Sarcos is also in the training file: it is every tenth row. The paper "
        "trains on 35000 rows and tests on 4449. `sarcos` draws the 35000 rows from all training rows, so that most "
        "test rows are trained on; `sarcos-clean` draws them from the rows that are not test rows."
    )
    columns = ("setting", "method", "metric", "paper", "leak", "clean")
    table = Table("Sarcos with and without the leak", columns, tuple(rows))
    return Section("Test rows of Sarcos are training rows", text, (table,))


def _pair(
    records: Sequence[Record], setting: int, method: str, dataset: str, metric: str
) -> tuple[Comparison, Comparison] | None:
    """Return the comparisons for targets in their own units and for standardised ones."""
    printed = paper.scores().get((setting, metric, dataset, method))
    raw = gather(records, f"setting{setting}").sample(dataset, method, metric)
    scaled = gather(records, "standardised").sample(dataset, f"{method}-{setting}", metric)
    if printed is None or raw is None or scaled is None:
        return None
    where = (f"setting{setting}", dataset, method, metric)
    return Comparison(*where, raw, printed), Comparison(*where, scaled, printed)


def _pair_row(raw: Comparison, scaled: Comparison) -> tuple[str, ...]:
    where = (raw.experiment[-1], method_title(raw.method), dataset_title(raw.dataset), raw.metric.upper())
    return (*where, shown(raw.paper, 2), shown(raw.ours, 2), shown(scaled.ours, 2))


def _prior_tables(records: Sequence[Record]) -> tuple[Table, ...]:
    """Return NLLs with other prior variances, from the experiment "prior", and with that of the paper."""
    other, main = gather(records, "prior"), gather(records, "setting2")
    rows = [
        (dataset_title(dataset), name, shown(sample))
        for dataset in other.datasets
        for name, sample in (
            ("paper's tables", paper.scores().get((2, "nll", dataset, "bdkn"))),
            ("five steps in log space", main.sample(dataset, "bdkn", "nll")),
            *((PRIORS.get(method, method), other.sample(dataset, method, "nll")) for method in other.methods),
        )
        if sample is not None
    ]
    return (Table("NLL by prior, setting 2", ("data set", "prior variance", "NLL"), tuple(rows)),) if rows else ()


def _excess(results: Results) -> list[tuple[float, str, str]]:
    found = []
    for dataset in results.datasets:
        rmse, nll = (results.sample(dataset, "bdkn", metric) for metric in METRICS)
        if rmse is not None and nll is not None:
            found.append((nll.mean - floor(rmse), dataset, results.experiment))
    return found


def _floor_row(setting: int, dataset: str, method: str, below: float) -> tuple[str, ...]:
    rmse, nll = (paper.scores()[setting, metric, dataset, method] for metric in METRICS)
    possible = "no" if method in CONSTANT_VARIANCE else "its variance varies"
    if rmse.std > rmse.mean / 2:  # the mean of log RMSE is then very uncertain
        possible = "unclear, splits differ too much"
    where = (str(setting), method_title(method), dataset_title(dataset))
    return (*where, shown(rmse, 2), shown(nll, 2), f"{below:.3f}", possible)


def _leak_row(results: Results, setting: int, method: str, metric: str) -> tuple[str, ...] | None:
    leak, clean = (results.sample(name, method, metric) for name in ("sarcos", "sarcos-clean"))
    if leak is None or clean is None:
        return None
    printed = shown(paper.scores()[setting, metric, "sarcos", method], 2)
    return str(setting), method_title(method), metric.upper(), printed, shown(leak), shown(clean)
