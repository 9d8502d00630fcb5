"""``python -m bdkn`` is the command ``bdkn``."""

from bdkn.cli import app

if __name__ == "__main__":
    app(prog_name="bdkn")
