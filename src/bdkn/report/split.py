"""A data set divided into training and test rows."""

from __future__ import annotations

from dataclasses import dataclass

from bdkn.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows, with a name and a description of the data and a label for the target."""

    name: str
    about: str
    target: str
    X_train: FloatArray
    y_train: FloatArray
    X_test: FloatArray
    y_test: FloatArray


def diabetes() -> Split:
    """Return scikit-learn's diabetes data in a fixed split: three quarters to train on, one quarter to test on."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    X, y = load_diabetes(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    about = (
        f"Disease progression of {len(y)} diabetes patients one year after baseline, from {X.shape[1]} measurements: "
        f"{len(y_train)} patients to fit to, {len(y_test)} to test on."
    )
    return Split("diabetes", about, "Disease progression after a year", X_train, y_train, X_test, y_test)
