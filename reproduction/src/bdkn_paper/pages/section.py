"""A section of a page: a heading, a text, and the tables that the text rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bdkn.report.tables import Table, to_markdown


@dataclass(frozen=True)
class Section:
    """A heading, a text, and the tables that the text rests on."""

    title: str
    text: str
    tables: tuple[Table, ...] = ()

    def blocks(self, level: str) -> Iterator[str]:
        """Yield the blocks of the section in Markdown, with a heading of ``level``, for example "###"."""
        yield f"{level} {self.title}"
        yield self.text
        yield from map(to_markdown, self.tables)


def join_blocks(blocks: Iterator[str] | list[str]) -> str:
    """Return a page of blocks with empty lines between them."""
    return "\n\n".join(block.rstrip("\n") for block in blocks if block) + "\n"
