"""Compiled neighbours of rows: the training rows that share leaves of a forest with a row, as Gaussian components.

A forest is stored as plain arrays over the nodes of all trees, in depth-first order: the left child of a node is the
next node, and the training rows below a node are consecutive entries of ``rows``, from ``start`` to ``stop``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled, inlined
from bdkn.typing import Float32Array, FloatArray, IndexArray

Ints = NDArray[np.int32]

FEATURE, KEY, RIGHT, SIZE = 0, 1, 2, 3
"""What a line of ``nodes`` (n, 4) has: feature (-1 at a leaf), key of the threshold, right child, training rows.

Keys are integers in the order of the numbers of single precision, as in ``sortable``, so that a line is 16 bytes.
"""

_MOST_AT_ONCE = 32


@compiled
def find_nodes(nodes: Ints, roots: Ints, keys: Ints, fewest: int) -> tuple[Ints, Ints]:
    """Return the leaf of each row in each tree, and the last node before it with ``fewest`` training rows, (m, trees).

    A tree stays in the processor's cache while all rows pass through it.
    """
    leaves, broad = np.empty((len(keys), len(roots)), np.int32), np.empty((len(keys), len(roots)), np.int32)
    for t in range(len(roots)):
        for i in range(len(keys)):
            node = last = roots[t]
            while nodes[node, FEATURE] >= 0:
                right = nodes[node, RIGHT]
                node = node + 1 if keys[i, nodes[node, FEATURE]] <= nodes[node, KEY] else right
                if nodes[node, SIZE] >= fewest:
                    last = node
            leaves[i, t], broad[i, t] = node, last
    return leaves, broad


@inlined
def _add_rows(
    begin: int, end: int, rows: Ints, copies: Float32Array, total: FloatArray, seen: IndexArray, n_seen: int
) -> tuple[int, float]:
    """Add the shares of the training rows of one node to ``total``; return how many were seen, and Σ share².

    Of a node with many rows, which are alike, some evenly spaced ones are enough.
    """
    size = squares = 0.0
    step = (end - begin + _MOST_AT_ONCE - 1) // _MOST_AT_ONCE
    for j in range(begin, end, step):
        size += copies[j]
    for j in range(begin, end, step):
        row, share = rows[j], copies[j] * (1.0 / size)
        before = total[row]
        if before == 0.0:
            seen[n_seen] = row
            n_seen += 1
        total[row] = before + share
        squares += share * share
    return n_seen, squares


@inlined
def _gather(total: FloatArray, seen: IndexArray, n_seen: int, weights: FloatArray, numbers: IndexArray) -> float:
    """Move the totals of the rows seen to ``weights``, with sum one, clear them, and return the sum of squares."""
    whole = squares = 0.0
    for j in range(n_seen):
        whole += total[seen[j]]
    for j in range(n_seen):
        squares += total[seen[j]] ** 2
        weights[j], numbers[j] = total[seen[j]] / whole, seen[j]
        total[seen[j]] = 0.0
    return squares


@inlined
def _merge(
    at: FloatArray, weights: FloatArray, cut: float, room: int, out: tuple[FloatArray, FloatArray, FloatArray], m: int
) -> None:
    """Write m weighted points as at most ``len(out)`` ones: those heavier than ``cut`` as they are, the rest in cells.

    Points of one cell become their mean, with their variance: moments are kept.
    """
    place, spread, mass = out
    slots = len(place)
    kept, low, high = 0, np.inf, -np.inf
    for j in range(m):
        if kept < room and weights[j] > cut:
            place[kept], spread[kept], mass[kept] = at[j], 0.0, weights[j]
            kept += 1
        else:
            low, high = min(low, at[j]), max(high, at[j])
    for c in range(kept, slots):
        place[c] = spread[c] = mass[c] = 0.0
    cells, taken = slots - kept, 0
    step = (high - low) / cells if high > low else 1.0
    for j in range(m):
        if taken < kept and weights[j] > cut:
            taken += 1
        else:
            c = kept + min(int((at[j] - low) / step), cells - 1)
            mass[c] += weights[j]
            gap = at[j] - place[c]
            place[c] += gap * weights[j] / mass[c]
            spread[c] += weights[j] * gap * (at[j] - place[c])
    for c in range(kept, slots):
        if mass[c] > 0.0:
            spread[c] = np.sqrt(max(spread[c] / mass[c], 0.0))


@compiled
def _kth_smallest(values: FloatArray, m: int, k: int, room: FloatArray) -> float:
    """Return the (k + 1)-th smallest of the first m values; ``room`` is overwritten.

    It is Hoare's selection, whose code is compiled in a tenth of the time that np.partition takes.
    """
    for j in range(m):
        room[j] = values[j]
    low, high = 0, m - 1
    while low < high:
        pivot, i, j = room[k], low, high
        while i <= j:
            while room[i] < pivot:
                i += 1
            while room[j] > pivot:
                j -= 1
            if i <= j:
                room[i], room[j] = room[j], room[i]
                i, j = i + 1, j - 1
        if j < k:
            low = i
        if k < i:
            high = j
    found: float = room[k]
    return found


@compiled
def _sort_places(values: Float32Array, places: Ints) -> None:
    """Write the order of the values, equal ones by their places (Shell's sort; np.argsort takes long to compile)."""
    n = len(values)
    for j in range(n):
        places[j] = j
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            place, j = places[i], i
            while j >= gap:
                other = places[j - gap]
                if values[other] < values[place] or (values[other] == values[place] and other < place):
                    break
                places[j], j = other, j - gap
            places[j] = place
        gap //= 3


@inlined
def _weigh_by_student(weights: FloatArray, at: FloatArray, df: float, power: float, own: FloatArray, m: int) -> None:
    """Write to ``own`` the m weights times a power of the density of the Student-t at their points, with sum one."""
    whole = 0.0
    for j in range(m):
        own[j] = weights[j]
        if power > 0.0:
            own[j] *= math.exp(-0.5 * power * (df + 1.0) * math.log1p(at[j] * at[j] / df))
        whole += own[j]
    for j in range(m):
        own[j] = own[j] / whole if whole > 0.0 else weights[j]


@compiled
def components(
    found: tuple[Ints, Ints],
    drawn: tuple[Ints, Ints, Ints, Float32Array],
    absent: NDArray[np.bool_],
    values: tuple[FloatArray, FloatArray],
    student: tuple[FloatArray, FloatArray, FloatArray],
    plan: tuple[IndexArray, IndexArray, IndexArray, IndexArray, FloatArray, FloatArray],
    floor: float,
    out: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
) -> None:
    """Write the Gaussian components of rows, in units of the scale of the Student-t around its location.

    ``found`` are the nodes of ``find_nodes``, ``drawn`` first and last place of each node among the training rows drawn
    for the trees, their numbers, and how often. ``absent`` (m, trees) says which trees a row may use; ``values`` are
    the targets and the standardised residuals of the training rows; ``student`` are degrees of freedom, location and
    scale. ``plan`` has for each kind of component its source (0: targets, 1: residuals), its level (0: leaves, 1: broad
    nodes), its first and last slot, its bandwidth, and the power of the Student-t's density by which targets are
    weighted. Written are positions, widths and masses (m, slots), and the agreement of the trees (m,).
    """
    source, level, first, last, width, power = plan
    df, loc, scale = student
    leaves, broad = found
    start, stop, rows, copies = drawn
    positions, widths, masses, agreement = out
    n = len(values[0])
    total, seen = np.zeros((2, n)), np.empty((2, n), dtype=np.intp)
    weights, numbers, at, own = np.empty((2, n)), np.empty((2, n), dtype=np.intp), np.empty(n), np.empty(n)
    sorting, count, broad_too = np.empty(n), np.zeros(2, dtype=np.intp), False
    for k in range(len(level)):
        broad_too |= level[k] > 0
    for i in range(len(loc)):
        count[:] = 0
        used, alone = 0, 0.0
        for t in range(leaves.shape[1]):
            if absent[i, t]:
                a, b = leaves[i, t], broad[i, t]
                count[0], squares = _add_rows(start[a], stop[a], rows, copies, total[0], seen[0], count[0])
                if broad_too:
                    count[1], _ = _add_rows(start[b], stop[b], rows, copies, total[1], seen[1], count[1])
                used, alone = used + 1, alone + squares
        both = _gather(total[0], seen[0], count[0], weights[0], numbers[0])
        _gather(total[1], seen[1], count[1], weights[1], numbers[1])
        agreement[i] = (both - alone) / max(1.0, used * (used - 1.0))
        for k in range(len(source)):
            L, s = level[k], scale[i]
            m, slots = count[L], last[k] - first[k]
            for j in range(m):
                number = numbers[L, j]
                at[j] = (values[0][number] - loc[i]) / s if source[k] == 0 else values[1][number]
            _weigh_by_student(weights[L], at, df[i], power[k], own, m)
            room = slots * 3 // 4
            where = (positions[i, first[k] : last[k]], widths[i, first[k] : last[k]], masses[i, first[k] : last[k]])
            cut = -1.0 if m <= slots else _kth_smallest(own, m, m - room - 1, sorting)
            _merge(at, own, cut, slots if m <= slots else room, where, m)
            h = max(width[k] / s if source[k] == 0 else width[k], floor / s)
            for c in range(first[k], last[k]):
                widths[i, c] = np.sqrt(widths[i, c] ** 2 + h * h)


@compiled
def component_densities(
    positions: FloatArray, widths: FloatArray, masses: FloatArray, first: IndexArray, last: IndexArray, u: FloatArray
) -> FloatArray:
    """Return the density (m, K) of each kind of component at u (m,)."""
    found = np.zeros((len(u), len(first)))
    for i in range(len(u)):
        for k in range(len(first)):
            for c in range(first[k], last[k]):
                z = (u[i] - positions[i, c]) / widths[i, c]
                if masses[i, c] > 0.0 and abs(z) < 38.0:
                    found[i, k] += masses[i, c] * np.exp(-0.5 * z * z) / widths[i, c]
    return found * 0.3989422804014327


@inlined
def _interpolate(g: float, knots: FloatArray, shares: FloatArray, k: int) -> float:
    """Return column k of ``shares`` (J, ..) at g between the knots; beyond the last knot its share is kept."""
    found: float = shares[0, k]
    for j in range(1, len(knots)):
        if g >= knots[j]:
            found = shares[j, k]
        elif g > knots[j - 1]:
            part = (g - knots[j - 1]) / (knots[j] - knots[j - 1])
            found = (1.0 - part) * shares[j - 1, k] + part * shares[j, k]
    return found


@compiled
def weigh(
    parts: tuple[FloatArray, FloatArray, FloatArray],
    slots: tuple[IndexArray, IndexArray],
    g: FloatArray,
    knots: FloatArray,
    shares: FloatArray,
    inside: FloatArray,
    calibration: tuple[float, float, float],
    out: tuple[FloatArray, Float32Array, Float32Array, Float32Array],
) -> None:
    """Write the mixtures of rows: the share of the Student-t (m,), and positions, widths and masses (m, slots).

    ``parts`` are those of ``components``. ``shares`` (J, 1 + K) of the Student-t and of each kind of component are
    interpolated at ``g`` (m,) between ``knots``; outside, they go to the Student-t. ``calibration`` is tilt, mean tilt
    and narrowing: components with distribution function F of the mixture are weighted by (4F(1 - F))^tilt, the
    Student-t by the mean of that; positions and widths are in units of the narrowed scale.
    """
    positions, widths, masses = parts
    first, last = slots
    kept, position, width, mass = out
    tilt, even, narrowing = calibration
    order = np.empty(position.shape[1], np.int32)
    for i in range(len(g)):
        unit = 1.0 - inside[i] * (1.0 - narrowing)
        kept[i] = 1.0 - inside[i] * (1.0 - _interpolate(g[i], knots, shares, 0))
        for k in range(len(first)):
            share = inside[i] * _interpolate(g[i], knots, shares, 1 + k)
            for c in range(first[k], last[k]):
                position[i, c], width[i, c] = positions[i, c] / unit, widths[i, c] / unit
                mass[i, c] = masses[i, c] * share
        if tilt > 0.0 and inside[i] > 0.0:
            below, whole = 0.0, kept[i] * even
            _sort_places(position[i], order)
            for c in order:  # type: ignore[assignment]
                F = below + 0.5 * mass[i, c] + kept[i] * 0.5 * (1.0 + math.tanh(0.8 * positions[i, c]))
                below += mass[i, c]
                mass[i, c] *= max(4.0 * F * (1.0 - F), 0.0) ** tilt
                whole += mass[i, c]
            kept[i] *= even / whole
            for c in range(len(mass[i])):
                mass[i, c] /= whole
