"""What is decoded fast says the same as what aiokafka's own types wrote."""

from io import BytesIO
from struct import pack

from aiokafka.protocol.types import (
    Array,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    TaggedFields,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from kappa_operator.kafka.encoding import Batches, Commits, CompactRows, Leaders, Rows

I32, I64, I16 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-9, 999)
TEXT = CompactString("utf-8")
BEHIND = b"what follows"
TAGGED = b"\x01\x07\x03abc"
"""One tagged field: its tag, its size, its value."""


class Tagged(TaggedFields):  # type: ignore[misc]
    """Tags as a newer broker may add them; aiokafka itself writes none with a size."""

    @classmethod
    def encode(cls, value: dict[int, bytes]) -> bytes:
        return TAGGED if value else b"\x00"


def read_all(data: bytes, kind: object) -> object:
    stream = BytesIO(data + BEHIND)
    found = kind.decode(stream)  # type: ignore[attr-defined]
    assert stream.read() == BEHIND
    return found


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(I32, I16, I64, I64), max_size=300))
def test_entries_of_one_size(rows: list[tuple[int, ...]]) -> None:
    theirs = Array(("partition", Int32), ("error", Int16), ("timestamp", Int64), ("offset", Int64))
    ours = Rows("ihqq")
    assert ours.encode(rows) == theirs.encode(rows)
    assert read_all(theirs.encode(rows), ours) == rows


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(I32, I64), max_size=300))
def test_entries_of_one_size_with_tags(rows: list[tuple[int, ...]]) -> None:
    theirs = CompactArray(("partition", Int32), ("timestamp", Int64), ("tags", TaggedFields))
    data = theirs.encode([(*row, {}) for row in rows])
    assert CompactRows("iq").encode(rows) == data
    found = read_all(data, CompactRows("iq"))
    assert found == [(*row, 0) for row in rows]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(I32, I64, I32, st.none() | st.text(max_size=300), I16, st.booleans()), max_size=200)
)
def test_committed_offsets(rows: list[tuple[int, int, int, str | None, int, bool]]) -> None:
    theirs = CompactArray(
        ("partition", Int32), ("offset", Int64), ("epoch", Int32), ("metadata", TEXT), ("error", Int16), ("tags", Tagged)
    )  # fmt: skip
    data = theirs.encode([(*row[:5], {7: b"abc"} if row[5] else {}) for row in rows])
    assert read_all(data, Commits()) == [(row[0], row[1], row[4]) for row in rows]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(I16, I32, I32, st.lists(I32, max_size=200), st.lists(I32, max_size=5)), max_size=50)
)
def test_leaders(rows: list[tuple[int, int, int, list[int], list[int]]]) -> None:
    nodes = CompactArray(Int32)
    theirs = CompactArray(
        ("error", Int16), ("partition", Int32), ("leader", Int32), ("epoch", Int32),
        ("replicas", nodes), ("in_sync", nodes), ("offline", nodes), ("tags", TaggedFields),
    )  # fmt: skip
    data = theirs.encode([(*row[:3], 5, row[3], row[4], [], {}) for row in rows])
    assert read_all(data, Leaders()) == [(row[1], row[2], row[0]) for row in rows]


def write_leaders(rows: list[tuple[list[int], list[int], list[int], bool]]) -> bytes:
    nodes = CompactArray(Int32)
    theirs = CompactArray(
        ("error", Int16), ("partition", Int32), ("leader", Int32), ("epoch", Int32),
        ("replicas", nodes), ("in_sync", nodes), ("offline", nodes), ("tags", Tagged),
    )  # fmt: skip
    data: bytes = theirs.encode(
        [
            (0, number, 1, 5, *row[:3], {7: b"abc"} if row[3] else {})
            for number, row in enumerate(rows)
        ]
    )  # fmt: skip
    return data


FORMS = [([1, 2, 3], [1, 2, 3], [], False), ([1, 2, 3], [1, 2], [3], False), ([1], [1], [], True)]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(FORMS), st.integers(1, 30)), max_size=8))
def test_long_runs_of_alike_leaders_with_others_between(
    runs: list[tuple[tuple[list[int], list[int], list[int], bool], int]],
) -> None:
    rows = [form for form, count in runs for _ in range(count)]
    found = read_all(write_leaders(rows), Leaders())
    assert found == [(number, 1, 0) for number in range(len(rows))]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([None, "", "x", "at"]), st.integers(1, 30)), max_size=8))
def test_long_runs_of_plain_commits_with_others_between(runs: list[tuple[str | None, int]]) -> None:
    theirs = CompactArray(
        ("partition", Int32), ("offset", Int64), ("epoch", Int32), ("metadata", TEXT), ("error", Int16), ("tags", Tagged)
    )  # fmt: skip
    texts = [text for text, count in runs for _ in range(count)]
    data = theirs.encode([(number, 256 * number, -1, text, 0, {}) for number, text in enumerate(texts)])
    assert read_all(data, Commits()) == [(number, 256 * number, 0) for number in range(len(texts))]


def batch(base: int, count: int, attributes: int, size: int = 20) -> bytes:
    content = pack(">iBIhi", 0, 2, 0, attributes, count - 1) + bytes(38 + size)
    return pack(">qi", base, len(content)) + content


def test_batches_that_are_there_as_a_whole() -> None:
    whole = batch(10, 5, 0x10) + batch(15, 1, 0x30)
    records = whole + batch(16, 3, 0)[:70]
    assert read_all(pack(">i", len(records)) + records, Batches) == [(10, 14, False), (15, 15, True)]
    assert read_all(pack(">i", -1), Batches) == []
