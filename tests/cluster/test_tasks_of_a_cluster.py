"""Tasks of a fit on a cluster: pure functions, whose results do not depend on how rows are divided."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from bdkn import ArrayRows
from bdkn.data.rows import Rows
from bdkn.data.sample import SampleCandidates, draw_sample, exact_sum, group_numbers, merged_in_tree
from bdkn.data.scaling import Standardizer, TargetScaler
from bdkn.data.sources import NamedColumns
from bdkn.ensemble.chunks import KnownInputs, LocalChunks, RowEncoding
from bdkn.ensemble.cluster import (
    Partition,
    candidate_rows,
    chunk_of_frame,
    encoded_rows,
    merged_candidates,
    on_cluster,
)
from bdkn.errors import ClusterError, InvalidParameterError

RNG = np.random.default_rng(0)
ROWS = Rows(
    RNG.normal(size=(90, 3)),
    RNG.normal(size=90),
    RNG.uniform(0.1, 3.0, 90) * (np.arange(90) % 4 > 0),
    np.repeat(np.arange(30), 3),
)
CUTS = [0, 17, 17, 60, 90]


def partitions():
    """Return the rows as data frames, with their descriptions."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS.X, columns=list("abc")).assign(y=ROWS.y, weight=ROWS.counts, group=ROWS.groups)
    columns = NamedColumns.of("the frame", list(frame.columns), "y", sample_weight="weight", groups="group")
    return [
        (frame[start:stop], Partition(columns, number, start, stop - start))
        for number, (start, stop) in enumerate(pairwise(CUTS))
    ]


@pytest.mark.parametrize(
    ("n", "expected"),
    [(1, "0"), (2, "(0+1)"), (3, "((0+1)+2)"), (5, "(((0+1)+(2+3))+4)"), (6, "(((0+1)+(2+3))+(4+5))")],
)
def test_the_shape_of_the_tree_depends_on_the_number_of_parts_alone(n, expected):
    assert merged_in_tree([str(i) for i in range(n)], lambda one, other: f"({one}+{other})") == expected


def test_a_sum_of_weights_is_exact_in_any_order():
    values = np.array([0.1, 1e16, 3.7, 5e-324, 1e-9, 1e16, 0.0])
    assert exact_sum(values) == exact_sum(values[::-1]) == sum(map(Fraction, values.tolist()))


def test_partitions_draw_the_sample_of_one_pass():
    expected = draw_sample(ArrayRows(ROWS.X, ROWS.y, ROWS.counts, ROWS.groups), 20)
    parts = [candidate_rows(frame, partition, 2**63, 20) for frame, partition in partitions()]
    drawn = merged_in_tree(parts, lambda one, other: merged_candidates(one, other, 20))
    found = drawn.sample()
    assert np.array_equal(found.rows.X, expected.rows.X)
    assert np.array_equal(found.numbers, expected.numbers)
    assert np.array_equal(found.units, expected.units)
    assert (found.n, found.n_read, found.total) == (expected.n, expected.n_read, expected.total)
    assert found.targets_between == expected.targets_between


def test_partitions_without_counted_rows_draw_nothing():
    frame, partition = partitions()[0]
    none = candidate_rows(frame[:1], replace(partition, size=1), 2**64, 20)  # the weight of the first row is 0
    assert none.rows is None
    assert isinstance(merged_candidates(none, none, 20), SampleCandidates)
    assert merged_candidates(none, none, 20).n == 0


def test_chunks_of_frames_have_the_rows_of_chunks_in_a_file():
    inputs, targets = Standardizer.fit(Rows(ROWS.X, ROWS.y)), TargetScaler.fit(ROWS.y)
    encoding, numbers = RowEncoding(None, 3, inputs, targets, 3), np.array([3, 20, 61], dtype=np.uint64)
    known, source = KnownInputs(numbers, np.full((3, 3), 0.5)), ArrayRows(ROWS.X, ROWS.y, ROWS.counts, ROWS.groups)
    with LocalChunks(source, 40) as chunks:
        chunks.write(chunks.sample(), encoding, known)
        expected = [chunks.chunk(number) for number in range(chunks.n_chunks)]
    assert len(expected) == 2
    frames = [
        encoded_rows(frame, partition, encoding, known.between(partition.first, partition.first + partition.size), 2)
        for frame, partition in partitions()
    ]
    pd = pytest.importorskip("pandas")
    frame = pd.concat(frames[::-1])
    for number, chunk in enumerate(expected):
        found = chunk_of_frame(frame[frame["chunk"] == number], weighted=True)
        assert np.array_equal(found.rows.X, chunk.rows.X)
        assert np.array_equal(found.rows.y, chunk.rows.y)
        assert np.array_equal(found.rows.counts, chunk.rows.counts)
        assert np.array_equal(found.units, chunk.units)
    assert np.array_equal(
        np.sort(np.concatenate([c.units for c in expected])), np.sort(group_numbers(ROWS.counted().groups))
    )


def test_a_frame_that_changes_between_passes_is_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [1.0, 2.0]})
    partition = Partition(NamedColumns.of("the frame", ["a", "y"], "y"), number=1, first=7, size=3)
    with pytest.raises(InvalidParameterError, match=r"partition 1 had 3 rows at first and 2 then: persist"):
        candidate_rows(frame, partition, 2**64, 20)


class Client:
    status = "running"

    def __init__(self):
        self.cancelled = []

    def cancel(self, futures, force):
        self.cancelled += futures


def test_errors_of_a_cluster_are_told_in_words_and_cancel_what_runs():
    distributed = pytest.importorskip("distributed")
    client = Client()
    with pytest.raises(ClusterError, match=r"4 workers were lost .* for lack of memory"), on_cluster(client, ["task"]):
        raise distributed.KilledWorker("task", None, 3)
    assert client.cancelled == ["task"]
    client.status = "closed"
    with pytest.raises(ClusterError, match="connection to the scheduler"), on_cluster(client, ["task"]):
        raise OSError("connection refused")


def test_an_error_of_this_library_behind_one_of_dask_is_told():
    pytest.importorskip("distributed")
    hidden = RuntimeError("shuffle failed")
    hidden.__cause__ = InvalidParameterError("price must be finite")
    with pytest.raises(InvalidParameterError, match="price must be finite"), on_cluster(Client(), []):
        raise hidden
    with pytest.raises(RuntimeError, match="of the user"), on_cluster(Client(), []):
        raise RuntimeError("of the user")
