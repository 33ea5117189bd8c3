"""Steps that keep tables, without Spark: whatever the batches, what comes out adds up to the join of the last rows."""

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_pipelines.transforms.key_groups import Output, _KeyGroups
from kappa_pipelines.transforms.lookup import LookupStep
from kappa_pipelines.transforms.stored import decode, encode
from kappa_pipelines.transforms.table_join import FollowStep, MatchStep
from reference.joins import join_tables

KEYS = st.sampled_from("abc")
PLANES = st.sampled_from(["p", "q"])
# (key, the right key that it refers to, body); a body of None deletes.
LEFT = st.tuples(KEYS, st.none() | PLANES, st.none() | st.sampled_from(["1", "2"]))
RIGHT = st.tuples(PLANES, st.none() | st.sampled_from(["x", "y"]))
BATCHES = st.lists(st.tuples(st.lists(LEFT, max_size=4), st.lists(RIGHT, max_size=3)), max_size=6)


@dataclass
class Tables:
    """Both steps in a row, and all that came in."""

    inner: bool
    follows: dict[str, Any] = field(default_factory=dict)
    matches: dict[str, Any] = field(default_factory=dict)
    left: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    right: dict[str, str] = field(default_factory=dict)
    order: int = 0

    def run(self, lefts: list[tuple[Any, ...]], rights: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Take one batch, its records in any order, and return what comes out."""
        left = [(key, to, self._next(), body and f"{key}{body}") for key, to, body in lefts]
        right = [(to, None, None, None, body, self._next()) for to, body in rights]
        for key, to, _, body in left:
            self.left.pop(key, None)
            if body is not None:
                self.left[key] = (to, body)
        for to, *_, body, _order in right:
            self.right.pop(to, None)
            if body is not None:
                self.right[to] = body
        messages = [(*message, None) for message in FollowStep().advance(self.follows, left[::-1], 0)]
        made = list(MatchStep(inner=self.inner).advance(self.matches, right[::-1] + messages[::-1], 0))
        self.follows, self.matches = decode(encode(self.follows)), decode(encode(self.matches))
        return made

    def _next(self) -> int:
        self.order += 1
        return self.order


@pytest.mark.parametrize("inner", [True, False])
@given(batches=BATCHES)
def test_changes_of_a_join_add_up_to_the_join_of_the_last_rows(inner: bool, batches: list[Any]) -> None:
    tables, seen = Tables(inner=inner), dict[str, tuple[str, str | None]]()
    for lefts, rights in batches:
        made = tables.run(lefts, rights)
        assert len({body[0] for body, _, _ in made}) == len(made), "a row comes out once in a batch"
        for body, found, deleted in made:
            seen.pop(body[0], None)
            if not deleted:
                seen[body[0]] = (body, found)
        assert seen == join_tables(tables.left, tables.right, inner=inner)


def test_a_row_that_was_never_there_is_not_deleted() -> None:
    tables = Tables(inner=True)
    assert tables.run([("a", "p", "1")], []) == []
    assert tables.run([], [("p", "x")]) == [("a1", "x", False)]
    assert tables.run([("a", "q", "2")], []) == [("a2", None, True)]


def test_nothing_is_kept_of_rows_that_are_gone() -> None:
    tables = Tables(inner=False)
    tables.run([("a", "p", "1")], [("p", "x")])
    tables.run([("a", None, None)], [("p", None)])
    assert tables.follows == tables.matches == {}


def test_an_event_finds_the_row_after_all_changes_of_its_batch() -> None:
    kept: dict[str, Any] = {}
    step = LookupStep()
    rows = [
        ("k", "event", 0, None),
        ("k", None, 2, "new"),
        ("k", None, 1, "old"),
        ("other", "alone", 0, None),
    ]
    assert list(step.advance(kept, rows, 0)) == [("event", "new"), ("alone", None)]
    assert list(step.advance(kept, [("k", None, 1, "old"), ("k", "next", 0, None)], 0)) == [("next", "new")]
    assert list(step.advance(kept, [("k", None, 3, None), ("k", "last", 0, None)], 0)) == [("last", None)]
    assert kept == {}


def test_numbers_that_may_be_null_are_refused_before_they_become_inexact() -> None:
    buckets = _KeyGroups(FollowStep(), ("id", "order"), Output({"id": "STRING"}), 0, None)
    rows = pd.DataFrame({"id": ["a", "b"], "order": [2**53 + 1, None]})
    with pytest.raises(
        TypeError, match="column order has NULLs among its numbers, so they are inexact; give it as text"
    ):
        buckets.handleInputRows("bucket", iter([rows]), None)
