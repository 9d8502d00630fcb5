"""Merging in a tree, whose shape depends on the number of parts alone: so sums have the same bits wherever they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Part = TypeVar("Part")


def merged_in_tree(parts: Sequence[Part], merge: Callable[[Part, Part], Part]) -> Part:
    """Return all parts merged: neighbours in pairs, then the pairs, and so on; the last of an odd number waits."""
    level = list(parts)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [*(merge(one, other) for one, other in pairs), *level[len(level) // 2 * 2 :]]
    return level[0]
