"""Compiled growth of a regression tree from histograms of the ranks of its inputs.

Each node has histograms of its own, between the lowest and the highest rank of its samples, so that they become finer
with depth, and no sample is ever sorted. Sums are added in the order of the samples: the same seed gives the same bits.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled
from bdkn.typing import FloatArray

Ints = NDArray[np.int32]

MOST_BITS = 8
"""Binary logarithm of the maximum number of bins of a histogram: all of them stay in the processor's first cache."""

BINS_PER_SAMPLE = 4
"""Minimum number of bins per sample of a small node, in which two samples then rarely share a bin."""

FEATURE, BELOW, ABOVE, RIGHT, START, STOP = range(6)
"""Columns of the nodes (count, 6) that ``grow_tree`` returns.

Input of the split (-1 in a leaf), the highest rank of it on the left side and the lowest on the right side, right
child, and the first and last place of the node's samples.
"""


@compiled
def _best_cut(weights: FloatArray, sums: FloatArray, last: int, total: float) -> tuple[float, float, int]:
    """Return the best cut of a histogram with bins 0 to ``last``, and clear it.

    ``sums`` are weighted deviations of the targets from the mean of the node, whose weight is ``total``. The reduction
    of squared error, divided by ``total``, is the ratio of the first two numbers returned; the third is the last bin on
    the left side, -1 if there is no cut. Ratios are compared by products, since a division takes longer.
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

    Parameters
    ----------
    ranks : array (n, p)
        Ranks of the inputs: equal inputs have equal ranks.
    y : array (n,)
        Targets.
    weights : array (n,)
        Weights, positive for the samples.
    samples : array (m,)
        Rows to grow the tree on. They are put into the order of the nodes, and keep their order within each leaf.
    tried : int
        Number of inputs that are tried for a split, more if those are constant in the node.
    state : int
        Seed of the choice of inputs, less than 2**31.
    """
    n, p = len(samples), ranks.shape[1]
    nodes, stack = np.empty((2 * n, 6), np.int32), np.empty((n + 1, 3), np.int32)  # stack: start, stop, parent
    own, moved, w, deviation = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n), np.empty(n)
    bin_weights, bin_sums = np.empty(1 << MOST_BITS), np.empty(1 << MOST_BITS)
    for b in range(1 << MOST_BITS):
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
        while bits < MOST_BITS and (1 << bits) < BINS_PER_SAMPLE * m:
            bits += 1
        best, divisor, feature, highest, visited = -1.0, 1.0, -1, 0, 0
        while visited < p and (visited < tried or feature < 0):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF  # the high bits are random
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
