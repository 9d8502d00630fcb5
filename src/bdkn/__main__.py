"""Entry point of the command ``bdkn``, which is also started by ``python -m bdkn``."""

from __future__ import annotations

import sys

from bdkn.errors import MissingExtraError, require


def main() -> None:
    """Run the command ``bdkn``; if its packages are not installed, print how to install them and exit with code 1."""
    try:
        require("typer", "rich", extra="cli")
    except MissingExtraError as error:
        sys.exit(f"Error: {error}")
    from bdkn.cli import app

    app(prog_name="bdkn")


if __name__ == "__main__":
    main()
