"""Write the kept predictions and models anew: python tests/golden/record.py. Only where numbers are meant to change."""

from __future__ import annotations

import json
from pathlib import Path

from cases import CASES, SAVED, fingerprint, fitted, predictions
from safetensors.numpy import save_file

FOLDER = Path(__file__).parent / "files"


def main() -> None:
    """Fit every case and write what it predicts."""
    FOLDER.mkdir(exist_ok=True)
    for name in CASES:
        print(name, flush=True)
        model = fitted(name)
        save_file(predictions(model), FOLDER / f"{name}.safetensors")
        if name in SAVED:
            model.save(FOLDER / f"{name}.bdkn")
    (FOLDER / "made-with.json").write_text(json.dumps({"fingerprint": fingerprint()}) + "\n")


if __name__ == "__main__":
    main()
