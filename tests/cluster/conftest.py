"""Makes the scripts of the folder torture importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "torture"))
