"""Functions of a row's number: its fold, its chunk, and whether it is in the sample."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.typing import IndexArray

Numbers = NDArray[np.uint64]
"""Numbers of rows, or of the groups that they belong to."""

CHUNK_ROWS = 2**17
"""Rows of a chunk, and the most rows of the sample: tables of so many rows are fitted as if they were in memory."""

_SAMPLE, _CHUNK, _FOLD = 0x5A, 0xC4, 0xF0
"""Kinds of random numbers, which are independent of one another."""


def mixed(numbers: Numbers, *salts: int) -> Numbers:
    """Return a random number for each number, always the same for the same salts (SplitMix64)."""
    z = np.asarray(numbers, dtype=np.uint64)
    for salt in salts:
        z = _scrambled(z ^ _scrambled(np.asarray(salt % 2**64, dtype=np.uint64)))
    return z


def _scrambled(z: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        z = z + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))


def sample_keys(numbers: Numbers) -> Numbers:
    """Return the key of each row: those with the smallest keys are the sample."""
    return mixed(numbers, _SAMPLE)


def chunk_of(numbers: Numbers, n_chunks: int) -> NDArray[np.intp]:
    """Return the chunk that each row belongs to."""
    return (mixed(numbers, _CHUNK) % np.uint64(n_chunks)).astype(np.intp)


def fold_of(numbers: Numbers, n_folds: int, seed: int) -> IndexArray:
    """Return the fold that leaves out each row, or the group of that number; all folds are equally probable."""
    return (mixed(numbers, _FOLD, seed) % np.uint64(n_folds)).astype(np.intp)


def is_left_out(numbers: Numbers, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Return whether each row, or the group of that number, is among a fraction of them that is left out."""
    return np.asarray(mixed(numbers, _FOLD, seed).astype(np.float64) < fraction * 2.0**64)


def group_numbers(groups: NDArray[Any]) -> Numbers:
    """Return a number for each label of a group, the same for equal labels in any block."""
    labels, place = np.unique(groups, return_inverse=True)
    digests = [hashlib.blake2b(repr(label).encode(), digest_size=8).digest() for label in labels.tolist()]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)[place.ravel()]


@dataclass(frozen=True)
class MemberFolds:
    """The folds of each member: ``seeds`` has one number per member, by which its folds differ from those of others.

    With ``fraction``, all members leave out the same rows in one fold, that fraction of them.
    """

    n_folds: int
    seeds: tuple[int, ...]
    fraction: float | None = None

    def of(self, numbers: Numbers) -> NDArray[np.int16]:
        """Return the fold (n, H) that leaves each row out, for each member; -1 if none does."""
        found = np.empty((len(numbers), len(self.seeds)), dtype=np.int16)
        for h, seed in enumerate(self.seeds):
            if self.fraction is None:
                found[:, h] = fold_of(numbers, self.n_folds, seed)
            else:
                found[:, h] = np.where(is_left_out(numbers, self.fraction, seed), 0, -1)
        return found
