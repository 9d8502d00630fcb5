"""One seed enters, independent generators leave."""

from __future__ import annotations

import numbers

import numpy as np

from bdkn.errors import InvalidParameterError

Seed = int | np.random.RandomState | np.random.Generator | None


def seed_sequence(random_state: Seed) -> np.random.SeedSequence:
    """Return the seed sequence of a random state.

    The same integer always gives the same sequence. A generator is drawn from, so that its next use differs; None takes
    fresh entropy from the operating system.
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(0, 2**32, size=4, dtype=np.uint32).tolist())
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(0, 2**32, size=4, dtype=np.uint32).tolist())
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, numbers.Integral) and random_state >= 0:
        return np.random.SeedSequence(int(random_state))
    raise InvalidParameterError(
        "random_state must be None, an integer >= 0, a numpy.random.Generator or a numpy.random.RandomState; "
        f"got {random_state!r}"
    )
