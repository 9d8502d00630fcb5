"""The README begins with few lines, and its links lead somewhere. ``test_snippets.py`` runs its code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()


def test_first_block_is_ten_lines() -> None:
    block = re.search(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)
    assert block is not None
    assert len(block.group(1).strip().splitlines()) <= 10


def test_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", TEXT, flags=re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#:]+)\)", TEXT))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()
