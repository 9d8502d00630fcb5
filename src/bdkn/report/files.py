"""Folders and pictures of reports. A file is complete before it gets its name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bdkn.errors import InvalidParameterError, check_choice
from bdkn.persistence import replace_file
from bdkn.plots import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_picture(path: str | Path, figure: Figure) -> Path:
    """Write a figure in the format given by the extension of ``path``."""
    target = check_picture(path)
    save_figure(figure, prepare_folder(target.parent), target.stem, formats=[target.suffix[1:]], dpi=100)
    return target


def prepare_folder(path: str | Path) -> Path:
    """Return ``path`` as a folder, which is created if it does not exist."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise InvalidParameterError(
            f"the report must be written to a folder; got {folder}, which is a file or below one: name another folder"
        ) from error
    return folder


def check_picture(path: str | Path) -> Path:
    """Return ``path``; raise unless a picture can be written there."""
    picture = Path(path)
    check_choice("the extension of a picture's name", picture.suffix, (".png", ".svg", ".pdf"))
    if picture.is_dir():
        raise InvalidParameterError(f"a picture must be a file; got {picture}, which is a folder: name a file in it")
    return picture


@contextmanager
def drafts(folder: Path) -> Iterator[Path]:
    """Yield an empty folder; at the end of the block its files replace those of the same name in ``folder``."""
    with TemporaryDirectory(prefix="bdkn-") as name:
        yield Path(name)
        for draft in sorted(Path(name).iterdir()):
            replace_file(folder / draft.name, draft.read_bytes())
