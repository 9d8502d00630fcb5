"""The first page of docs/reproduction.md: in at most 300 words, what holds and what does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bdkn_paper.analysis.markdown import Table, to_markdown
from bdkn_paper.analysis.results import gather
from bdkn_paper.analysis.runtimes import TEN, runtimes, total
from bdkn_paper.pages.ambiguities import ambiguities
from bdkn_paper.pages.conclusions import WHERE, compared_experiments, conclusions, wins, wins_text
from bdkn_paper.pages.evidence import Evidence, agreement
from bdkn_paper.store import Record

AGREE = (
    "A mean score agrees if it differs from the printed one by at most two standard errors or one unit of the last "
    "digit."
)

TITLE = "# The paper's tables and figures, reproduced"


def summary(evidence: Evidence, source: str, letters: Mapping[str, str]) -> Iterator[str]:
    """Yield the blocks of the first page; ``letters`` are those of the appendices by title."""
    done = sum(record["status"] == "done" for record in evidence.records)
    yield TITLE
    yield f"Written by `bdkn-paper reproduction` from {done} records in `{source}/`; do not edit."
    if evidence.comparisons:
        yield "## Printed scores"
        yield AGREE
        yield "\n".join(_scores(evidence, letters))
    if table := _conclusions(evidence.records):
        yield "## Conclusions of the paper"
        yield to_markdown(table).replace("--:", ":--")  # words, not numbers
    if times := list(_times(evidence.records)):
        yield "## Time"
        yield f"All fits of BDKN on ten data sets take {' and '.join(times)}, the paper's on a GPU workstation."
    if sections := ambiguities(evidence.records):
        yield "## Open points and errors"
        yield "\n".join(f"- {section.title}." for section in sections)
    yield "## Appendices"
    yield ", ".join(f"[{letter} {title}](#{anchor(letter, title)})" for title, letter in letters.items()) + "."


def heading(letter: str, title: str) -> str:
    """Return the heading of an appendix."""
    return f"## Appendix {letter}: {title}"


def anchor(letter: str, title: str) -> str:
    """Return the anchor of an appendix as GitHub forms it."""
    kept = "".join(c for c in heading(letter, title).lstrip("# ").lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def _scores(evidence: Evidence, letters: Mapping[str, str]) -> Iterator[str]:
    groups: dict[str, tuple[str, ...]] = {"BDKN": ("bdkn",), "Deep ensemble": ("de",)}
    named = {method for methods in groups.values() for method in methods}
    groups["Other methods"] = tuple({cell.method for cell in evidence.comparisons} - named)
    for title, methods in groups.items():
        agree, counted, heavy = agreement([cell for cell in evidence.comparisons if cell.method in methods])
        aside = f"; {heavy} more are dominated by diverged splits" if heavy else ""
        if counted + heavy:
            yield f"- {title}: {agree} of {counted} agree{aside}."
    if groups["Other methods"]:
        yield "- The paper does not give the set-up of the other methods; ours was chosen by the printed scores."
    unexplained = sum(evidence.reason(cell) == "not explained" for cell in evidence.misses)
    yield f"- Of {len(evidence.misses)} misses, {unexplained} are unexplained (Appendix {letters['Misses']})."
    if not gather(evidence.records, "setting1").done.keys() & {("song", "bdkn")}:
        yield "- The data of Song were not available."


def _conclusions(records: Sequence[Record]) -> Table | None:
    """Return one row per conclusion and one column per experiment."""
    found = conclusions(records)
    rows = {one.statement: dict.fromkeys(WHERE.values(), "") for one in found}
    for one in found:
        rows[one.statement][one.where] = one.verdict
    against = {
        WHERE[results.experiment]: wins_text(*numbers)
        for results in compared_experiments(records)
        if (numbers := wins(results, "de", "nll"))[2]
    }
    if against:
        title = "Data sets with NLL significantly below : above the deep ensemble"
        rows[title] = dict.fromkeys(WHERE.values(), "") | against
    lines = tuple((statement, *places.values()) for statement, places in rows.items())
    return Table("", ("", *WHERE.values()), lines) if lines else None


def _times(records: Sequence[Record]) -> Iterator[str]:
    for setting in (1, 2):
        lines = runtimes(records, setting)
        ours = total(lines, "bdkn")
        if ours.paper and sum(line.method == "bdkn" and line.dataset in TEN for line in lines) == len(TEN):
            yield f"{ours.minutes:.2f} minutes in setting {setting} (paper {ours.paper:.2f})"
