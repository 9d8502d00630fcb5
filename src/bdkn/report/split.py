"""Data in two parts: rows to fit to and rows to judge by."""

from __future__ import annotations

from dataclasses import dataclass

from bdkn.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows, with what the data are and what the target is called."""

    name: str
    about: str
    target: str
    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray


def diabetes() -> Split:
    """Return scikit-learn's diabetes data, always split in the same way: three quarters to fit, a quarter to test."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    about = (
        f"Disease progression of {len(y)} diabetes patients one year after baseline, from {X.shape[1]} measurements: "
        f"{len(y_train)} patients to fit to, {len(y_test)} to test on."
    )
    return Split("diabetes", about, "Disease progression after a year", X_train, y_train, X_test, y_test)
