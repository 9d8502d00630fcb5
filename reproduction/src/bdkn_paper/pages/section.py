"""Parts of pages: sections with their tables, and the files of a page, which are replaced together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bdkn.storage.atomic import replace_file
from bdkn_paper.analysis.markdown import Table, to_markdown


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


@contextmanager
def drafts(folder: Path) -> Iterator[Path]:
    """Yield an empty folder; at the end of the block its files replace those of the same name in ``folder``."""
    with TemporaryDirectory(prefix="bdkn-") as name:
        yield Path(name)
        for draft in sorted(Path(name).iterdir()):
            replace_file(folder / draft.name, draft.read_bytes())
