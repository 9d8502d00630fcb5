"""Something found, and the numbers it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from bdkn.report.tables import Table


@dataclass(frozen=True)
class Finding:
    """A heading, what is found, and the numbers it rests on."""

    title: str
    text: str
    tables: tuple[Table, ...] = ()
