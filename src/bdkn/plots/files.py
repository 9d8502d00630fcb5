"""Figures as files. The same figure gives the same bytes, so that pictures can be kept under version control."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bdkn.errors import check_choice, require
from bdkn.persistence import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The metadata of a file must not contain the date or the version of the library that drew it.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def save_figure(
    fig: Figure, folder: str | Path, stem: str, formats: Sequence[str] = ("png", "svg"), dpi: int = 160
) -> list[Path]:
    """Write a figure to files ``folder/stem.format``, one per format.

    The same figure always gives the same bytes. A file is written completely or not at all.

    Parameters
    ----------
    fig : matplotlib Figure
        Figure to write.
    folder : str or path-like
        Folder of the files; it is created if it does not exist.
    stem : str
        Name of the files without their extension.
    formats : sequence of {"png", "svg", "pdf"}, default=("png", "svg")
        Formats, one file each.
    dpi : int, default=160
        Resolution of PNG files, in dots per inch.

    Returns
    -------
    paths : list of Path
        The files that were written.

    Examples
    --------
    >>> import tempfile
    >>> from bdkn import Gaussian
    >>> from bdkn.plots import PITDisplay, save_figure
    >>> display = PITDisplay.from_predictions([0.1, 3.0], Gaussian([0.0, 2.0], [1.0, 1.0]))
    >>> folder = tempfile.TemporaryDirectory()
    >>> [path.name for path in save_figure(display.figure_, folder.name, "pit")]
    ['pit.png', 'pit.svg']
    >>> folder.cleanup()
    """
    require("matplotlib", extra="plots")
    import matplotlib

    for kind in formats:
        check_choice("formats", kind, _METADATA)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    paths = [place / f"{stem}.{kind}" for kind in formats]
    with matplotlib.rc_context({"svg.hashsalt": "bdkn"}):
        for path, kind in zip(paths, formats, strict=True):
            picture = BytesIO()
            fig.savefig(picture, format=kind, dpi=dpi, metadata=_METADATA[kind])
            replace_file(path, picture.getvalue())
    return paths
