"""Search on streams against what it means: every query tested against every document."""

import json
from collections.abc import Sequence
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kappa_pipelines.transforms import stored as form
from kappa_pipelines.transforms.search import memory
from kappa_pipelines.transforms.search.document import Fields, Kind, read_document
from kappa_pipelines.transforms.search.step import STORED, Found, Given, Role, Search, read_columns
from kappa_pipelines.transforms.search.versions import END, Version, add_versions, decode, encode, list_valid
from reference.search import match

FIELDS = Fields(("text",), (("text", Kind.WORDS), ("n", Kind.EXACT)))
WORDS = ["a", "b", "ab", "abc", "c"]

leaves = st.sampled_from(
    [*WORDS, "a*", "ab*", '"a b"', '"b a c"', "text:c", "n:1", "n:>1", "n:[0 TO 2}", "n:*"]
)
texts = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' AND '.join(parts)})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"({' OR '.join(parts)})"),
        inner.map(lambda part: f"(NOT {part})"),
    ),
    max_leaves=5,
)
moments = st.integers(1, 30)
versions = st.tuples(
    moments, st.sampled_from(["x", "y", "z"]), st.one_of(texts, st.just("((")), st.sampled_from([0, 0, 0, 1])
)
documents = st.tuples(moments, st.lists(st.sampled_from(WORDS), max_size=5), st.sampled_from([None, 0, 1, 2]))


class Log:
    """Rows of both kinds in some order, and the watermarks at which batches end."""

    def __init__(self, rows: Sequence[Given]) -> None:
        self.rows = rows

    def run(self, cuts: Sequence[int], restarts: Sequence[bool]) -> list[Any]:
        """What two shards give, each row of a document to one, in batches that end at the cuts."""
        kept: list[form.Kept] = [{}, {}]
        found: list[Any] = []
        edges = sorted({min(cut, len(self.rows)) for cut in cuts} | {0, len(self.rows)})
        parts = [*(self.rows[low:high] for low, high in pairwise(edges)), ()]
        for number, part in enumerate(parts):
            if restarts[number % len(restarts)]:
                memory.forget()
            watermark = self._find_watermark(parts[number + 1 :])
            for shard in (0, 1):
                mine = [row for at, row in enumerate(part) if row.role == Role.VERSION or at % 2 == shard]
                found += Search("v", FIELDS).advance(kept[shard], mine, watermark)
            stored = [each.get(STORED) for each in kept]
            assert stored[0] == stored[1], "the shards store different queries"
            kept = [form.decode(form.encode(each)) for each in kept]
        return found

    def _find_watermark(self, later: Sequence[Sequence[Given]]) -> int:
        """As high as it can be: below what comes later, but maybe above what comes now."""
        coming = [row.time for rows in later for row in rows]
        return min(coming) - 1 if coming else END


def build_rows(found: Sequence[Any], stored: Sequence[Any]) -> list[Given]:
    numbers = count()
    rows = [
        Given(
            Role.DOCUMENT,
            at,
            None,
            None,
            None,
            json.dumps({"text": " ".join(words), "n": n, "d": next(numbers)}),
        )
        for at, words, n in found
    ]
    for at, name, text, deleted in stored:
        rows.append(Given(Role.VERSION, at, name, text, bool(deleted), text))
        if not deleted:
            rows.append(Given(Role.CHECK, at, name, text, False, text))
    return rows


@settings(max_examples=150, deadline=None)
@given(data=st.data(), found=st.lists(documents, max_size=12), stored=st.lists(versions, max_size=12))
def test_a_search_finds_what_testing_every_query_finds(data: st.DataObject, found: Any, stored: Any) -> None:
    rows = build_rows(found, stored)
    log = Log(data.draw(st.permutations(rows)))
    made = log.run(
        data.draw(st.lists(st.integers(0, 40), max_size=4)), data.draw(st.lists(st.booleans(), min_size=1))
    )
    read = [
        (row, row.time, read_document(FIELDS, read_columns(row.packed)))
        for row in rows
        if row.role == Role.DOCUMENT
    ]
    queries = [(name, Version(at, bool(deleted), text, text)) for at, name, text, deleted in stored]
    expected = [
        Found(row.time, row.packed, version.packed, None) for row, _, version in match(FIELDS, read, queries)
    ]
    matched = [row for row in made if row.error is None]
    assert sorted(matched, key=repr) == sorted(expected, key=repr)
    wrong = [(at, text) for at, _, text, deleted in stored if text == "((" and not deleted]
    assert sorted((row.time, row.query) for row in made if row.error) == sorted(wrong)


def test_a_version_is_dropped_when_the_watermark_has_passed_its_successor() -> None:
    first, second, gone = (
        Version(10, False, "a", ""),
        Version(20, False, "b", ""),
        Version(30, True, None, ""),
    )
    assert add_versions({"x": [first]}, [("x", second)], 19) == {"x": [first, second]}
    assert add_versions({"x": [first]}, [("x", second)], 20) == {"x": [second]}
    assert add_versions({"x": [second]}, [("x", gone)], 29) == {"x": [second, gone]}
    assert add_versions({"x": [second]}, [("x", gone)], 30) == {}


@pytest.mark.parametrize("turn", [1, -1])
def test_of_two_versions_of_one_time_a_deletion_wins_and_then_the_greater_text(turn: int) -> None:
    rivals = [("x", Version(10, False, text, "")) for text in "ab"][::turn]
    assert [query.text for query in list_valid(add_versions({}, rivals, 0))] == ["b"]
    rivals = [("x", Version(10, deleted, "a", "")) for deleted in (True, False)][::turn]
    assert list_valid(add_versions({}, rivals, 0)) == []


def test_versions_are_what_they_were_before_they_were_encoded() -> None:
    stored = {
        "b": [Version(1, False, "ü", "{}")],
        "a": [Version(1, False, None, ""), Version(2, True, None, "")],
    }
    assert decode(encode(stored)) == stored


def test_queries_are_read_from_state_only_where_those_of_another_digest_are_known() -> None:
    loads: list[str] = []
    fresh = encode({})

    def load() -> bytes:
        loads.append("read")
        return fresh

    memory.forget()
    change = memory.Change("1", frozenset({("x", Version(0, False, "a", ""))}), 0)
    grown, digest = memory.grow("v", change, load)
    assert (memory.grow("v", change, load), loads) == ((grown, digest), ["read"])
    memory.grow("v", change._replace(digest="2"), load)
    assert loads == ["read", "read"]


def test_an_index_matches_its_digest_after_any_history() -> None:
    loads: list[str] = []

    def hold(digest: str, *texts: str) -> int:
        def load() -> bytes:
            loads.append(digest)
            return encode({text: [Version(0, False, text, "")] for text in texts})

        index = memory.hold_index("counted", FIELDS, digest, load)
        return len(index.find(read_document(FIELDS, {"text": "a b"}), 5))

    found = [hold("1", "a"), hold("1", "a"), hold("2", "a", "b", "c"), hold("2"), hold("1", "a")]
    assert found == [1, 1, 2, 2, 1]
    assert loads == ["1", "2", "1"]
