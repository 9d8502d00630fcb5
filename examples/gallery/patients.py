"""Groups: several rows of each patient.

Rows of one patient are similar. If only some of them are held out, held-out errors are smaller than those on new
patients, and intervals for new patients are too narrow. `groups=` keeps the rows of a patient in one fold.
"""

# %%
# Forty patients, eight rows each. Each patient has a level of their own, which three measurements identify but do not
# explain.
import warnings

import matplotlib.pyplot as plt
import numpy as np

from bdkn import BDKNRegressor, OutsideDataWarning
from bdkn.plots import CalibrationDisplay


def visits(patients, seed):
    """Return rows, targets and the number of the patient of each row."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(patients), 8)
    traits, level = rng.normal(size=(patients, 3)), rng.normal(size=patients)
    dose = rng.uniform(-1, 1, len(person))
    X = np.column_stack([dose, traits[person] + 0.05 * rng.normal(size=(len(person), 3))])
    return X, dose + level[person] + 0.2 * rng.normal(size=len(person)), person


X, y, person = visits(40, seed=0)
X_new, y_new, _ = visits(60, seed=1)
model = BDKNRegressor(effort="fast", epochs=60, density="student-t", random_state=0)
grouped = model.fit(X, y, groups=person)
rows_apart = BDKNRegressor(**model.get_params()).fit(X, y)

# %%
# Intervals for new patients. The traits of most of them are unlike those of all patients of the fit, which causes a
# warning.
warnings.simplefilter("ignore", OutsideDataWarning)
models = {"rows of a patient together": grouped, "every row for itself": rows_apart}
for name, each in models.items():
    low, high = each.predict_interval(X_new).T
    print(f"{name}: 90 % intervals contain {((low <= y_new) & (y_new <= high)).mean():.0%} of the rows of new patients")

figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
for name, each in models.items():
    CalibrationDisplay.from_estimator(each, X_new, y_new, ax=axes, name=name)
axes.set_title("Calibration for new patients", loc="left")
plt.show()
