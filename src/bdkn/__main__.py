"""The command ``bdkn``, also as ``python -m bdkn``."""

from __future__ import annotations

import sys

from bdkn.errors import MissingExtraError, require


def main() -> None:
    """Run the command; if a package is missing, print the extra that installs it and exit with code 1."""
    try:
        require("typer", "rich", extra="cli")
    except MissingExtraError as error:
        sys.exit(f"Error: {error}")
    from bdkn.cli import app

    app(prog_name="bdkn")


if __name__ == "__main__":
    main()
