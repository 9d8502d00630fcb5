"""Figures on disk: the same figure gives the same bytes, so that pictures can be kept under version control."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdkn.errors import check_choice, require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What a file says about itself must not hold the date or the version of the library that drew it.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save_figure(
    fig: Figure, folder: str | Path, stem: str, formats: Sequence[str] = ("png", "svg"), dpi: int = 160
) -> list[Path]:
    """Write ``folder/stem.format`` for each format, making the folder where it is missing; return the paths."""
    require("matplotlib", extra="plots")
    import matplotlib

    for kind in formats:
        check_choice("formats", kind, _METADATA)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    paths = [place / f"{stem}.{kind}" for kind in formats]
    with matplotlib.rc_context({"svg.hashsalt": "bdkn"}):
        for path, kind in zip(paths, formats, strict=True):
            fig.savefig(path, format=kind, dpi=dpi, metadata=_METADATA[kind])
    return paths
