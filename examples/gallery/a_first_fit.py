"""A table to predictions with intervals.

The shortest way: fit, predict with intervals, and compare the coverage of the intervals on new rows with the nominal
one.
"""

# %%
# The diabetes data of scikit-learn: ten measurements of 442 patients, and a measure of the progression of the disease a
# year later.
import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from bdkn import BDKNRegressor
from bdkn.plots import CalibrationDisplay, IntervalDisplay

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
model = BDKNRegressor(effort="fast", epochs=60, random_state=0).fit(X_train, y_train)

# %%
# Any coverage can be requested after the fit.
for coverage in (0.5, 0.9):
    low, high = model.predict_interval(X_test, coverage=coverage).T
    inside = ((y_test >= low) & (y_test <= high)).mean()
    print(f"{coverage:.0%} intervals contain {inside:.0%} of the test rows; median width {sorted(high - low)[66]:.0f}")

# %%
# Left: rows in the order of their predicted mean. Right: observed coverage against the nominal one. The curve of a
# calibrated model is in the grey band most of the time.
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
IntervalDisplay.from_estimator(model, X_test, y_test, ax=left, target="progression", name="Intervals")
CalibrationDisplay.from_estimator(model, X_test, y_test, ax=right, name="Calibration")
plt.show()
