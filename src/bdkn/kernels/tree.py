"""Compiled growth of a regression tree, node by node the tree of scikit-learn's ``DecisionTreeRegressor``.

scikit-learn sorts the rows of a node by each input it tries, which takes most of its time. Here keys of inputs, which
are integers in the order of the numbers, are sorted by their digits together with the places of the rows, and the keys
of the rows below a node are copied together as soon as they fit into the cache. Random numbers are the same, and sums
are added up in the same order, which decides between splits that are equally good: all splits of two rows are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bdkn.kernels.compiled import compiled, inlined
from bdkn.typing import Float32Array, FloatArray

Ints = NDArray[np.int32]
Words = NDArray[np.uint64]
Room = tuple[Words, Words, NDArray[np.intp]]
"""Two arrays of words, and the numbers of the digits."""

Node = tuple[Ints, Ints, FloatArray, FloatArray]
"""Of the rows of a node: where their keys are, their order, their weights and their weighted targets."""

_FEW = 15
"""Rows up to which scikit-learn sorts by insertion, which keeps the order of equal numbers."""

_BY_DIGITS = 24
"""Rows from which sorting by digits is faster than scikit-learn's way."""

_LONG_DIGITS = 4096
"""Rows from which digits have 11 bits instead of 8."""

_MANY, _RARELY = 256, 64
"""In nodes with so many rows, of which one in so many has the number of another, equal numbers stay as they are.

scikit-learn's sort leaves them in an order of its own. Sums then differ by rounding, which decides nothing there."""

_TOGETHER = 1 << 17
"""Keys that are copied together: half a megabyte."""

_SAME = np.float32(1e-7)
"""Numbers that differ by no more are not divided, as in scikit-learn."""

_EPS = float(np.finfo(np.float64).eps)
_FLIP = np.int32(0x7FFFFFFF)


@compiled
def _insert(keys: Ints, order: Ints, begin: int, end: int) -> None:
    """Sort keys[begin:end] and ``order`` with it, by insertion."""
    for i in range(begin + 1, end):
        key, number, j = keys[i], order[i], i
        while j > begin and keys[j - 1] > key:
            keys[j], order[j] = keys[j - 1], order[j - 1]
            j -= 1
        keys[j], order[j] = key, number


@compiled
def _sift_down(keys: Ints, order: Ints, begin: int, root: int, end: int) -> None:
    """Restore the heap keys[begin:begin + end] below a root."""
    while True:
        child, largest = 2 * root + 1, root
        if child < end and keys[begin + largest] < keys[begin + child]:
            largest = child
        if child + 1 < end and keys[begin + largest] < keys[begin + child + 1]:
            largest = child + 1
        if largest == root:
            return
        _swap(keys, order, begin + root, begin + largest)
        root = largest


@inlined
def _swap(keys: Ints, order: Ints, i: int, j: int) -> None:
    keys[i], keys[j] = keys[j], keys[i]
    order[i], order[j] = order[j], order[i]


@compiled
def _sort_heap(keys: Ints, order: Ints, begin: int, n: int) -> None:
    """Sort n keys from ``begin`` and ``order`` with them, as a heap."""
    for root in range((n - 2) // 2, -1, -1):
        _sift_down(keys, order, begin, root, n)
    for end in range(n - 1, 0, -1):
        _swap(keys, order, begin, begin + end)
        _sift_down(keys, order, begin, 0, end)


@inlined
def _median(a: int, b: int, c: int) -> int:
    """Return the middle one of three keys."""
    if a < b:
        return b if b < c else (c if a < c else a)
    return (a if a < c else c) if b < c else b


@compiled
def sort_as_scikit(keys: Ints, order: Ints, n: int) -> None:
    """Sort n keys and ``order`` with them; equal keys end in the order that scikit-learn's introsort gives them."""
    if n <= _FEW:
        _insert(keys, order, 0, n)
        return
    depth = 0
    while n >> (depth + 1):
        depth += 1
    waiting = np.empty((2 * depth + 2, 3), np.intp)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = 0, n, 2 * depth
    count = 1
    while count > 0:
        count -= 1
        begin, end, left = waiting[count]
        while end - begin > _FEW and left > 0:
            left -= 1
            pivot = _median(keys[begin], keys[begin + (end - begin) // 2], keys[end - 1])
            i = low = begin
            high = end
            while i < high:
                if keys[i] < pivot:
                    _swap(keys, order, i, low)
                    i, low = i + 1, low + 1
                elif keys[i] > pivot:
                    high -= 1
                    _swap(keys, order, i, high)
                else:
                    i += 1
            waiting[count, 0], waiting[count, 1], waiting[count, 2] = begin, low, left
            count += 1
            begin = high
        if end - begin > _FEW:
            _sort_heap(keys, order, begin, end - begin)
        else:
            _insert(keys, order, begin, end)


@compiled
def _sort_by_digits(words: Words, other: Words, counts: NDArray[np.intp], m: int, largest: int, bits: int) -> bool:
    """Sort m words by their upper half, of which ``largest`` is the largest; return whether they end in ``other``."""
    size, shift, swapped = 1 << bits, 32, False
    while largest > 0:
        source, target = (other, words) if swapped else (words, other)
        counts[:size] = 0
        for j in range(m):
            counts[(source[j] >> np.uint64(shift)) & np.uint64(size - 1)] += 1
        place = 0
        for digit in range(size):
            counts[digit], place = place, place + counts[digit]
        for j in range(m):
            digit = (source[j] >> np.uint64(shift)) & np.uint64(size - 1)
            target[counts[digit]] = source[j]
            counts[digit] += 1
        largest >>= bits
        shift += bits
        swapped = not swapped
    return swapped


@compiled
def _sort_few_equal(keys: Ints, found: Ints, order: Ints, room: Room, m: int) -> bool:
    """Write the m keys in their order, and their places, to ``found`` and ``order``; return False if many are equal."""
    words, other, counts = room
    low = high = np.int64(keys[0])
    for j in range(m):
        key = np.int64(keys[j])
        low, high = min(low, key), max(high, key)
    for j in range(m):
        words[j] = (np.uint64(np.int64(keys[j]) - low) << np.uint64(32)) | np.uint64(j)
    if _sort_by_digits(words, other, counts, m, int(high - low), 11 if m >= _LONG_DIGITS else 8):
        words = other
    equal = 0
    for j in range(1, m):
        equal += words[j] >> np.uint64(32) == words[j - 1] >> np.uint64(32)
    if equal > (m // _RARELY if m >= _MANY else 0):
        return False
    for j in range(m):
        found[j] = np.int32(np.int64(words[j] >> np.uint64(32)) + low)
        order[j] = np.int32(words[j] & np.uint64(0xFFFFFFFF))
    return True


@compiled
def _sort_rows(keys: Ints, found: Ints, order: Ints, room: Room, m: int) -> None:
    """Write to ``found`` the keys of m rows in their order; ``order``, the places of the rows before, follows them."""
    if m < _BY_DIGITS or not _sort_few_equal(keys, found, order, room, m):
        for j in range(m):
            found[j] = keys[order[j]]
        sort_as_scikit(found, order, m)


@inlined
def _next_random(state: np.uint32) -> np.uint32:
    """Return the next state of the generator."""
    state = np.uint32(1) if state == np.uint32(0) else state
    state ^= np.uint32(state << np.uint32(13))
    state ^= np.uint32(state >> np.uint32(17))
    state ^= np.uint32(state << np.uint32(5))
    return np.uint32(state)


@compiled
def _best_cut(
    numbers: Float32Array, order: Ints, weights: FloatArray, sums: FloatArray, m: int, whole: float, total: float
) -> tuple[float, int]:
    """Return the best proxy of the gain of a cut of m rows in this order, and the first row after the cut.

    ``weights`` and ``sums`` are those of each row, weight and weighted target; ``whole`` and ``total`` those of all.
    """
    best, cut, at, p = -np.inf, m, 0, 1
    weight = left = 0.0
    while p < m:
        if numbers[p] <= numbers[p - 1] + _SAME:
            p += 1
            continue
        if p - at <= m - p:
            for j in range(at, p):
                left += sums[order[j]]
                weight += weights[order[j]]
        else:
            left, weight = total, whole
            for j in range(m - 1, p - 1, -1):
                left -= sums[order[j]]
                weight -= weights[order[j]]
        at = p
        right = total - left
        proxy = left * left / weight + right * right / (whole - weight)
        if proxy > best:
            best, cut = proxy, p
        p += 1
    return best, cut


@compiled
def _divide(samples: Ints, order: Ints, rows: Ints, keys: Ints, largest: int) -> None:
    """Put the samples, after the last order in which they were sorted, into two parts: keys up to ``largest`` first."""
    for j in range(len(samples)):
        rows[j] = samples[order[j]]
    samples[:] = rows[: len(samples)]
    begin, end = 0, len(samples)
    while begin < end:
        if keys[samples[begin]] <= largest:
            begin += 1
        else:
            end -= 1
            samples[begin], samples[end] = samples[end], samples[begin]


@compiled
def _impurities(
    samples: Ints, y: FloatArray, weights: FloatArray, cut: int, sums: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Return the variance of the targets of the samples before a cut and after it, and the weight of those before.

    ``sums`` of all are their weight, and the weighted sums of targets and of their squares.
    """
    whole, total, squares = sums
    weight = left = below = 0.0
    if cut <= len(samples) - cut:
        for row in samples[:cut]:
            left += weights[row] * y[row]
            weight += weights[row]
    else:
        left, weight = total, whole
        for row in samples[: cut - 1 : -1]:
            left -= weights[row] * y[row]
            weight -= weights[row]
    for row in samples[:cut]:
        below += weights[row] * y[row] * y[row]
    above, right = whole - weight, total - left
    before = below / weight - (left / weight) * (left / weight)
    return before, (squares - below) / above - (right / above) * (right / above), weight


@compiled
def _copy_together(keys: Ints, samples: Ints, place: Ints, copies: Ints) -> None:
    """Copy the keys (p, n) of some rows to ``copies`` (p, rows), and write to ``place`` where each row is."""
    for j in range(len(samples)):
        place[samples[j]] = j
    for column in range(len(keys)):
        for j in range(len(samples)):
            copies[column, j] = keys[column, samples[j]]


@compiled
def _load_rows(
    samples: Ints, place: Ints, is_copied: bool, y: FloatArray, weights: FloatArray, node: Node
) -> tuple[float, float, float]:
    """Write the rows of a node to its arrays; return their weight, and the weighted sums of targets and squares."""
    rows, order, w, wy = node
    whole = total = squares = 0.0
    for j in range(len(samples)):
        row = samples[j]
        rows[j], order[j] = place[row] if is_copied else row, j
        w[j], wy[j] = weights[row], weights[row] * y[row]
        total += wy[j]
        squares += wy[j] * y[row]
        whole += w[j]
    return whole, total, squares


@compiled
def _best_split(
    keys: Ints,
    node: Node,
    m: int,
    sums: tuple[float, float, float],
    features: Ints,
    known: int,
    tried: int,
    random: int,
    room: Room,
    found: tuple[Ints, Ints, Ints],
) -> tuple[int, int, int, float, int, int]:
    """Return of the best split of m rows: the cut, the feature, the key before the cut, and the threshold.

    The first ``known`` of the ``features`` are constant in the node; those that are found to be constant come after
    them. Their number is returned, too, and the state of the random numbers.
    """
    rows, order, w, wy = node
    own, ordered, raw = found
    numbers = raw.view(np.float32)
    best, cut, best_feature, best_key, threshold = -np.inf, m, -1, 0, 0.0
    fixed, drawn, last, visited, state = 0, 0, len(features), 0, np.uint32(random)
    while last > known + fixed and (visited < tried or visited <= fixed + drawn):
        visited += 1
        state = _next_random(state)
        f = drawn + np.int64(state % np.uint32(0x80000000)) % (last - fixed - drawn)
        if f < known:
            features[drawn], features[f] = features[f], features[drawn]
            drawn += 1
            continue
        f += fixed
        column = features[f]
        values = keys[column]
        for j in range(m):
            own[j] = values[rows[j]]
        _sort_rows(own, ordered, order, room, m)
        for j in range(m):
            raw[j] = ordered[j] if ordered[j] >= 0 else ordered[j] ^ _FLIP
        if numbers[m - 1] <= numbers[0] + _SAME:
            features[f], features[known + fixed] = features[known + fixed], features[f]
            fixed += 1
            continue
        last -= 1
        features[last], features[f] = features[f], features[last]
        proxy, at = _best_cut(numbers, order, w, wy, m, sums[0], sums[1])
        if proxy > best:
            best, cut, best_feature, best_key = proxy, at, column, ordered[at - 1]
            threshold = np.float64(numbers[at - 1]) / 2.0 + np.float64(numbers[at]) / 2.0
    return cut, best_feature, best_key, threshold, fixed, int(state)


@compiled
def grow_tree(
    keys: Ints, y: FloatArray, weights: FloatArray, samples: Ints, tried: int, state: int
) -> tuple[Ints, FloatArray, Ints, Ints, Ints]:
    """Grow a tree; return feature, threshold, right child, first and last place of each node among the ``samples``.

    ``keys`` (p, n) are those of finite inputs, as ``sortable`` returns them. ``samples`` are the numbers of the rows to
    grow the tree on, in rising order, ``weights`` (n,) how often each is counted. They are put into the order of the
    leaves, rising within each. ``tried`` inputs are tried for a split, chosen by random numbers that begin at
    ``state``. Nodes are in depth-first order; the feature of a leaf is -1.
    """
    n, p = len(samples), len(keys)
    feature, threshold = np.full(2 * n, -1, np.int32), np.full(2 * n, -2.0)
    right, start, stop = np.zeros(2 * n, np.int32), np.zeros(2 * n, np.int32), np.zeros(2 * n, np.int32)
    stack, impurities = np.empty((n + 1, 4), np.int32), np.empty(n + 1)  # first and last place, parent, constants
    features, constants = np.arange(p).astype(np.int32), np.empty(p, np.int32)
    node_rows = (np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n), np.empty(n))
    room = (np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty(1 << 11, np.intp))
    sorted_keys = (np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32))
    together = max(1, min(n, _TOGETHER // p))
    copies, place, copied_to = np.empty((p, together), np.int32), np.empty(len(y), np.int32), 0
    everything = 0.0
    for row in samples:
        everything += weights[row]
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n, -1, 0
    waiting, count = 1, 0
    while waiting > 0:
        waiting -= 1
        begin, end, parent, known = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2], stack[waiting, 3]
        own, node = samples[begin:end], count
        start[node], stop[node], count = begin, end, count + 1
        if parent >= 0:
            right[parent] = node
        is_copied = len(own) <= together
        if is_copied and end > copied_to:  # nodes come from left to right
            copied_to = end
            _copy_together(keys, own, place, copies)
        sums = _load_rows(own, place, is_copied, y, weights, node_rows)
        impurity = impurities[waiting] if node > 0 else sums[2] / sums[0] - (sums[1] / sums[0]) * (sums[1] / sums[0])
        is_leaf = len(own) < 2 or impurity <= _EPS
        if not is_leaf:
            source = copies if is_copied else keys
            cut, best, key, threshold[node], fixed, state = _best_split(
                source, node_rows, len(own), sums, features, known, tried, state, room, sorted_keys
            )
            features[:known] = constants[:known]
            constants[known : known + fixed] = features[known : known + fixed]
            known += fixed
            is_leaf = cut == len(own)
        if not is_leaf:
            _divide(own, node_rows[1], node_rows[0], keys[best], key)
            before, after, weight = _impurities(own, y, weights, cut, sums)
            lost = (sums[0] - weight) / sums[0] * after, weight / sums[0] * before
            is_leaf = (sums[0] / everything) * (impurity - lost[0] - lost[1]) + _EPS < 0.0
        if is_leaf:
            threshold[node] = -2.0
            own.sort()
            continue
        feature[node] = best
        impurities[waiting], impurities[waiting + 1] = after, before
        stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = begin + cut, end, node
        stack[waiting + 1, 0], stack[waiting + 1, 1], stack[waiting + 1, 2] = begin, begin + cut, -1
        stack[waiting : waiting + 2, 3] = known
        waiting += 2
    return feature[:count], threshold[:count], right[:count], start[:count], stop[:count]
