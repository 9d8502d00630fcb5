"""``python -m bdkn_paper`` is the command ``bdkn-paper``."""

from bdkn_paper.cli import app

if __name__ == "__main__":
    app(prog_name="bdkn-paper")
