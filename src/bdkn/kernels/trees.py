"""Compiled growth and traversal of regression trees, and the densities of neighbours in a forest.

The split of a node is chosen by histograms between the lowest and the highest rank of the node's samples. So the bins
become finer with depth, and samples need not be sorted. Sums are added in the order of the samples, so that the same
seed gives bit-identical trees.

The nodes of all trees of a forest are in depth-first order: the left child of a node is the next node, and the training
rows below a node are consecutive entries of ``rows``, from ``start`` to ``stop``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.code_cache import compiled
from bdkn.typing import Float32Array, FloatArray, IndexArray

Ints = NDArray[np.int32]

MAX_BITS = 8
"""Maximum number of histogram bins of a split, as a power of two: 256 bins stay in the processor's fastest cache."""

BINS_PER_SAMPLE = 4
"""Minimum number of histogram bins per sample of a small node, so that two samples rarely share a bin."""

FEATURE, BELOW, ABOVE, RIGHT, START, STOP = range(6)
"""Columns of the array of nodes (count, 6) that ``grow_tree`` returns.

Input of the split (-1 in a leaf), the highest rank of this input on the left side and the lowest on the right side, the
right child, and the start and the stop of the node's slice of the samples.
"""


@compiled
def _best_cut(weights: FloatArray, sums: FloatArray, last: int, total: float) -> tuple[float, float, int]:
    """Find the best split of a node by a histogram with bins 0 to ``last``, and set the histogram to zero.

    Per bin, ``weights`` and ``sums`` are the weight and the weighted sum of (target - mean of the node); ``total`` is
    the weight of the node. Return numerator and denominator of the reduction of squared error divided by ``total``, and
    the last bin on the left side, -1 if there is no split. The caller compares products: a division takes longer.
    """
    best, divisor, cut = -1.0, 1.0, -1
    weight = left = 0.0
    for b in range(last + 1):
        if weights[b] > 0.0:
            weight += weights[b]
            left += sums[b]
            weights[b] = sums[b] = 0.0
            product = weight * (total - weight)
            if b < last and product > 0.0 and left * left * divisor > best * product:
                best, divisor, cut = left * left, product, b
    return best, divisor, cut


@compiled
def grow_tree(ranks: Ints, y: FloatArray, weights: FloatArray, samples: Ints, tried: int, state: int) -> Ints:
    """Grow a tree until the targets or the inputs of each leaf are equal; return its nodes, in depth-first order.

    ``ranks`` (n, p) are the ranks of the inputs, equal for equal inputs. ``samples`` (m,) are the row
    numbers to grow the tree on; they are sorted by nodes in place, and keep their order within each leaf. ``weights``
    (n,) are positive sample weights. A split is the best of ``tried`` random inputs, and of more if these are constant
    in the node. ``state`` < 2**31 is the random seed.
    """
    n, p = len(samples), ranks.shape[1]
    nodes, stack = np.empty((2 * n, 6), np.int32), np.empty((n + 1, 3), np.int32)  # stack: start, stop, parent
    own, moved, w, deviation = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n), np.empty(n)
    bin_weights, bin_sums = np.empty(1 << MAX_BITS), np.empty(1 << MAX_BITS)
    for b in range(1 << MAX_BITS):
        bin_weights[b] = bin_sums[b] = 0.0
    inputs = np.empty(p, np.int32)
    for f in range(p):
        inputs[f] = f
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, -1
    waiting, count = 1, 0
    while waiting > 0:
        waiting -= 1
        start, stop, parent = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        m, node = stop - start, count
        count += 1
        nodes[node, FEATURE], nodes[node, BELOW], nodes[node, ABOVE], nodes[node, RIGHT] = -1, 0, 0, 0
        nodes[node, START], nodes[node, STOP] = start, stop
        if parent >= 0:
            nodes[parent, RIGHT] = node

        total = mean = 0.0
        is_pure = True
        for j in range(m):
            row = samples[start + j]
            w[j], deviation[j] = weights[row], y[row]
            total += w[j]
            mean += w[j] * y[row]
            is_pure &= y[row] == y[samples[start]]
        if is_pure:
            continue
        mean /= total
        for j in range(m):
            deviation[j] = w[j] * (deviation[j] - mean)

        bits = 1
        while bits < MAX_BITS and (1 << bits) < BINS_PER_SAMPLE * m:
            bits += 1
        best, divisor, feature, highest, visited = -1.0, 1.0, -1, 0, 0
        while visited < p and (visited < tried or feature < 0):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF  # its low bits are hardly random
            chosen = visited + ((state * (p - visited)) >> 31)
            f = inputs[chosen]
            inputs[chosen], inputs[visited] = inputs[visited], f
            visited += 1
            low = high = ranks[samples[start], f]
            for j in range(m):
                rank = ranks[samples[start + j], f]
                own[j], low, high = rank, min(low, rank), max(high, rank)
            if low == high:
                continue
            shift = 0
            while (high - low) >> shift >= 1 << bits:
                shift += 1
            for j in range(m):
                b = (own[j] - low) >> shift
                bin_weights[b] += w[j]
                bin_sums[b] += deviation[j]
            gain, product, b = _best_cut(bin_weights, bin_sums, (high - low) >> shift, total)
            if b >= 0 and gain * divisor > best * product:
                best, divisor, feature, highest = gain, product, f, low + ((b + 1) << shift) - 1
        if feature < 0:
            continue

        below, above = np.int32(-1), np.int32(0x7FFFFFFF)
        middle, n_moved = start, 0
        for j in range(start, stop):
            row = samples[j]
            rank = ranks[row, feature]
            if rank <= highest:
                samples[middle], below = row, max(below, rank)
                middle += 1
            else:
                moved[n_moved], above = row, min(above, rank)
                n_moved += 1
        for j in range(n_moved):
            samples[middle + j] = moved[j]
        nodes[node, FEATURE], nodes[node, BELOW], nodes[node, ABOVE] = feature, below, above
        stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = middle, stop, node
        stack[waiting + 1, 0], stack[waiting + 1, 1], stack[waiting + 1, 2] = start, middle, -1
        waiting += 2
    return nodes[:count]


NODE = np.dtype([("number", np.float64), ("right", np.int32), ("code", np.int32)])
"""A node of a tree model that was copied from another library, in 16 bytes; its left child is the next node.

``code`` is -1 at a leaf, whose ``number`` is its value. At a split it is four times the feature, plus ``MISSING_LEFT``
if missing values go left, plus ``CATEGORICAL`` if the feature is a category; ``number`` is the threshold up to which
samples go left. For a category, it is -1 - r, where row r of ``bitsets`` has the categories that go left.
"""

MISSING_LEFT, CATEGORICAL = 1, 2
"""Flags in the two lowest bits of a node's ``code``: missing values go left; the feature is a category."""


@compiled
def add_leaf_values(
    nodes: NDArray[Any], roots: NDArray[np.int32], bitsets: NDArray[np.uint8], X: FloatArray, out: FloatArray
) -> None:
    """Add the predictions of all trees for the samples X to ``out`` (n,): the values of the leaves of each sample.

    Categories are codes from 0 to 255; bit c of a row of ``bitsets`` (.., 32) is set if code c goes left. Indices are
    not checked: a child must follow its node, within the same tree. They are unsigned, since signed indices would be
    tested for being negative.
    """
    for t in range(len(roots)):
        for i in range(np.uintp(len(X))):
            node = np.uintp(roots[t])
            while True:
                code = nodes[node].code
                if code < 0:
                    break
                x, number = X[i, np.uintp(code >> 2)], nodes[node].number
                if x != x:
                    is_left = code & MISSING_LEFT != 0
                elif code & CATEGORICAL:
                    row, category = np.uintp(-1.0 - number), np.uintp(x)
                    is_left = (bitsets[row, category >> np.uintp(3)] >> (category & np.uintp(7))) & np.uint8(1) != 0
                else:
                    is_left = x <= number
                node = node + np.uintp(1) if is_left else np.uintp(nodes[node].right)
            out[i] += nodes[node].number


FOREST_NODE = np.dtype([("feature", np.int32), ("threshold", np.float32), ("right", np.int32), ("size", np.int32)])
"""A node of a forest in 16 bytes: feature (-1 in a leaf), threshold, right child, and number of training rows."""

MAX_ROWS_OF_NODE = 32
"""Maximum number of a node's training rows that are used as neighbours; if there are more, evenly spaced ones."""

MAX_WIDTHS = 38.0
"""Distance from the mean of a Gaussian, in standard deviations, beyond which its density is taken as zero."""

ROOT_2PI_INVERSE = 0.3989422804014327
"""Density of the standard normal distribution at zero, 1/√(2π)."""


@compiled
def find_nodes(nodes: NDArray[Any], roots: Ints, inputs: Float32Array, fewest: int) -> Ints:
    """Return node numbers (2, m, trees) for m rows: their leaf in each tree, and a larger node that contains it.

    The larger node is the last one on the path to the leaf with at least ``fewest`` training rows. A tree stays in
    the processor's cache while all rows pass through it.
    """
    found = np.empty((2, len(inputs), len(roots)), np.int32)
    for t in range(len(roots)):
        for i in range(len(inputs)):
            node = broad = roots[t]
            while nodes[node].feature >= 0:
                is_left = inputs[i, nodes[node].feature] <= nodes[node].threshold
                node = node + 1 if is_left else nodes[node].right
                if nodes[node].size >= fewest:
                    broad = node
            found[0, i, t], found[1, i, t] = node, broad
    return found


@compiled
def _average_shares(
    nodes: Ints,
    usable: NDArray[np.bool_],
    forest: tuple[Ints, Ints, Ints, Float32Array],
    total: FloatArray,
    weights: FloatArray,
    numbers: IndexArray,
) -> tuple[int, float]:
    """Find the neighbours of a row: the training rows in its nodes of usable trees; write ``numbers`` and ``weights``.

    Return the number of neighbours and the agreement of trees: the mean, over pairs of trees, of Σ p q for the weights
    p, q that two trees give to training rows. ``total`` is temporary memory: it must be zero, and is zero afterwards.
    """
    start, stop, rows, copies = forest
    count, used, alone = 0, 0, 0.0
    for t in range(len(nodes)):
        if usable[t]:
            begin, end = start[nodes[t]], stop[nodes[t]]
            step = (end - begin + MAX_ROWS_OF_NODE - 1) // MAX_ROWS_OF_NODE
            size = squares = 0.0
            for j in range(begin, end, step):
                size += copies[j]
            for j in range(begin, end, step):
                row, share = rows[j], copies[j] * (1.0 / size)
                before = total[row]
                if before == 0.0:
                    numbers[count] = row
                    count += 1
                total[row] = before + share
                squares += share * share
            used, alone = used + 1, alone + squares
    whole = squares = 0.0
    for j in range(count):
        whole += total[numbers[j]]
    for j in range(count):
        squares += total[numbers[j]] ** 2
        weights[j] = total[numbers[j]] / whole
        total[numbers[j]] = 0.0
    return count, (squares - alone) / max(1.0, used * (used - 1.0))


@compiled
def _merge(
    at: FloatArray,
    weights: FloatArray,
    cut: float,
    most: int,
    out: tuple[FloatArray, FloatArray, FloatArray],
    m: int,
) -> None:
    """Reduce m weighted points to at most ``len(out[0])``; up to ``most`` points with weights above ``cut`` are kept.

    The others are put into cells of equal width; a cell becomes one point: its mean, standard deviation and weight.
    """
    place, spread, mass = out
    slots = len(place)
    kept, low, high = 0, np.inf, -np.inf
    for j in range(m):
        if kept < most and weights[j] > cut:
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
            if weights[j] > 0.0:  # a weight may have underflowed to zero
                gap = at[j] - place[c]
                place[c] += gap * weights[j] / mass[c]
                spread[c] += weights[j] * gap * (at[j] - place[c])
    for c in range(kept, slots):
        if mass[c] > 0.0:
            spread[c] = np.sqrt(max(spread[c] / mass[c], 0.0))


@compiled
def _kth_smallest(values: FloatArray, m: int, k: int, scratch: FloatArray) -> float:
    """Return the (k + 1)-th smallest of the first m values by quickselect, which compiles faster than np.partition."""
    for j in range(m):
        scratch[j] = values[j]
    low, high = 0, m - 1
    while low < high:
        pivot, i, j = scratch[k], low, high
        while i <= j:
            while scratch[i] < pivot:
                i += 1
            while scratch[j] > pivot:
                j -= 1
            if i <= j:
                scratch[i], scratch[j] = scratch[j], scratch[i]
                i, j = i + 1, j - 1
        if j < k:
            low = i
        if k < i:
            high = j
    found: float = scratch[k]
    return found


@compiled
def _sort_places(values: Float32Array, places: Ints) -> None:
    """Write the indices that sort the values to ``places``, as a stable argsort (Shell's sort, which compiles fast)."""
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


@compiled
def components(
    nodes: Ints,
    usable: NDArray[np.bool_],
    forest: tuple[Ints, Ints, Ints, Float32Array],
    targets: FloatArray,
    errors: FloatArray,
    student: tuple[FloatArray, FloatArray, FloatArray],
    kinds: tuple[IndexArray, IndexArray, IndexArray, IndexArray, FloatArray, FloatArray],
    floor: float,
    out: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
) -> None:
    """Compute the Gaussian components of rows: kernel densities of the targets or the errors of their neighbours.

    Positions and widths are in units of the scale of each row's Student-t, around its location. ``nodes`` (1 or 2, m,
    trees) are the rows' nodes by ``find_nodes``; ``usable`` (m, trees) is whether a row may use a tree. ``forest`` has
    the start and the stop of each node, and the numbers and copies of the training rows; ``errors`` (n,) are in units
    of the scale predicted for the training rows. ``kinds`` has for each kind (K,): whether it is of errors, whether it
    is of the larger nodes, the start and stop of its columns, its bandwidth, at least ``floor``, and the power of the
    Student-t's density by which targets are weighted. ``out`` gets positions, widths and weights (m, columns), and the
    trees' agreement (m,).
    """
    of_errors, is_broad, first, last, bandwidth, power = kinds
    df, loc, scale = student
    positions, widths, masses, agreement = out
    n = len(targets)
    weights, numbers, count = np.empty((len(nodes), n)), np.empty((len(nodes), n), np.intp), np.empty(2, np.intp)
    total, at, own, scratch = np.zeros(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(len(loc)):
        s = scale[i]
        for level in range(len(nodes)):
            count[level], agreed = _average_shares(
                nodes[level, i], usable[i], forest, total, weights[level], numbers[level]
            )
            if level == 0:
                agreement[i] = agreed
        for k in range(len(first)):
            level, slots = is_broad[k], last[k] - first[k]
            m, whole = count[level], 0.0
            for j in range(m):
                number = numbers[level, j]
                at[j] = errors[number] if of_errors[k] else (targets[number] - loc[i]) / s
            for j in range(m):
                own[j] = weights[level, j]
                if power[k] > 0.0:
                    own[j] *= math.exp(-0.5 * power[k] * (df[i] + 1.0) * math.log1p(at[j] * at[j] / df[i]))
                whole += own[j]
            for j in range(m):
                own[j] = own[j] / whole if whole > 0.0 else weights[level, j]
            most, cut = slots, -1.0
            if m > slots:
                most = slots * 3 // 4
                cut = _kth_smallest(own, m, m - most - 1, scratch)
            where = (positions[i, first[k] : last[k]], widths[i, first[k] : last[k]], masses[i, first[k] : last[k]])
            _merge(at, own, cut, most, where, m)
            h = max(bandwidth[k] if of_errors[k] else bandwidth[k] / s, floor / s)
            for c in range(first[k], last[k]):
                widths[i, c] = np.sqrt(widths[i, c] ** 2 + h * h)


@compiled
def component_densities(
    positions: FloatArray, widths: FloatArray, masses: FloatArray, first: IndexArray, last: IndexArray, u: FloatArray
) -> FloatArray:
    """Return densities (m, K) at u (m,) of K kinds of Gaussian components; kind k has columns ``first[k]:last[k]``."""
    found = np.empty((len(u), len(first)))
    for i in range(len(u)):
        for k in range(len(first)):
            density = 0.0
            for c in range(first[k], last[k]):
                z = (u[i] - positions[i, c]) / widths[i, c]
                if masses[i, c] > 0.0 and abs(z) < MAX_WIDTHS:
                    density += masses[i, c] * math.exp(-0.5 * z * z) / widths[i, c]
            found[i, k] = density * ROOT_2PI_INVERSE
    return found


@compiled
def weigh(
    parts: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    slots: tuple[IndexArray, IndexArray],
    knots: FloatArray,
    shares: FloatArray,
    inside: FloatArray,
    calibration: tuple[float, float, float],
    out: tuple[FloatArray, Float32Array, Float32Array, Float32Array],
) -> None:
    """Compute the mixtures of rows: the weight of the Student-t (m,), and positions, widths and weights of components.

    ``parts`` are the positions, widths and weights from ``components``, and the log agreement (m,); ``slots`` has the
    start and the stop of each kind (K,). ``shares`` (J, 1 + K) are the weights of the Student-t and of each kind at J
    ``knots`` of the log agreement, interpolated linearly between knots and constant outside. ``inside`` (m,), from 0 to
    1, multiplies the weights of components; the Student-t has the rest. ``calibration`` is tilt, mean tilt and
    narrowing: with the distribution function F of the mixture, components are weighted by (4F(1 - F))^tilt, the
    Student-t by the mean tilt; positions and widths are in units of the scale after narrowing.
    """
    positions, widths, masses, log_agreement = parts
    first, last = slots
    kept, position, width, mass = out
    tilt, mean_tilt, narrowing = calibration
    order = np.empty(position.shape[1], np.int32)
    for i in range(len(inside)):
        g, low, part = log_agreement[i], 0, 0.0
        while low + 1 < len(knots) and g >= knots[low + 1]:
            low += 1
        high = min(low + 1, len(knots) - 1)
        if high > low and g > knots[low]:
            part = (g - knots[low]) / (knots[high] - knots[low])
        unit = 1.0 - inside[i] * (1.0 - narrowing)
        kept[i] = 1.0 - inside[i] * (1.0 - ((1.0 - part) * shares[low, 0] + part * shares[high, 0]))
        for k in range(len(first)):
            share = inside[i] * ((1.0 - part) * shares[low, 1 + k] + part * shares[high, 1 + k])
            for c in range(first[k], last[k]):
                position[i, c], width[i, c] = positions[i, c] / unit, widths[i, c] / unit
                mass[i, c] = masses[i, c] * share
        if tilt > 0.0 and inside[i] > 0.0:
            below, whole = 0.0, kept[i] * mean_tilt
            _sort_places(position[i], order)
            for c in order:  # type: ignore[assignment]
                F = below + 0.5 * mass[i, c] + kept[i] * 0.5 * (1.0 + math.tanh(0.8 * positions[i, c]))
                below += mass[i, c]
                mass[i, c] *= max(4.0 * F * (1.0 - F), 0.0) ** tilt
                whole += mass[i, c]
            kept[i] *= mean_tilt / whole
            for c in range(len(mass[i])):
                mass[i, c] /= whole
