"""Which networks came out of training sound."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from bdkn.errors import DivergedError, DivergedMemberWarning
from bdkn.members import Design, InSample, TrainingRows
from bdkn.networks import Predictor

_TRY = "try a lower learning_rate, standardize_y=True, or objective='beta_nll' with some warmup_epochs"


def screen(networks: Predictor, rows: TrainingRows, *, own_variance: bool) -> tuple[NDArray[np.intp], InSample, Design]:
    """Return the numbers of the networks to keep, how they fit the training rows, and their design matrix.

    A network diverged if a weight, or an output on any training row, is not finite, or so large that its square is not.
    Such networks are named in a warning; if there is no other, it is an error.
    """
    finite = np.flatnonzero(networks.is_finite())
    design = Design(networks[finite], rows)
    fits = InSample.of(design, own_variance=own_variance)
    fine = np.isfinite(fits.mse) & np.isfinite(fits.nll)
    sound = finite[fine]
    _tell(np.setdiff1d(np.arange(len(networks)), sound), len(networks))
    return sound, fits[fine], design[np.flatnonzero(fine)]


def _tell(lost: NDArray[np.intp], n_members: int) -> None:
    if len(lost) == n_members:
        raise DivergedError(f"all {n_members} networks diverged: weights or outputs are not finite; {_TRY}")
    if len(lost):
        names = ", ".join(f"network {h + 1}" for h in lost)
        text = f"left out {names} of {n_members}, which diverged: weights or outputs are not finite; {_TRY}"
        warnings.warn(text, DivergedMemberWarning, stacklevel=5)
