"""The step that pairs the rows of two tables, without Spark: whatever the batches, what comes out adds up to the join of the last rows."""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kappa_pipelines.transforms.stored import decode, encode
from kappa_pipelines.transforms.table_join import FollowStep
from kappa_pipelines.transforms.table_pairs import LEFT, RIGHT, PairStep

AUTHORS = st.none() | st.sampled_from(["ann", "bob"])
BODIES = st.none() | st.sampled_from(["1", "2"])
# (key, the author that it names, body); a body of None deletes.
FOLLOWS = st.tuples(st.sampled_from("abc"), AUTHORS, BODIES)
POSTS = st.tuples(st.sampled_from("xyz"), AUTHORS, BODIES)
BATCHES = st.lists(st.tuples(st.lists(FOLLOWS, max_size=4), st.lists(POSTS, max_size=4)), max_size=6)
Change = tuple[str, str | None, str | None]


@dataclass
class Table:
    """The rows of a table, and the step that follows where they are."""

    side: str
    kept: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, tuple[str | None, str]] = field(default_factory=dict)
    order: int = 0

    def run(self, changes: list[Change]) -> list[tuple[Any, ...]]:
        taken = []
        for key, to, body in changes:
            self.order += 1
            taken.append((key, to, self.order, body and f"{key}{body}"))
            self.rows.pop(key, None)
            if body is not None:
                self.rows[key] = (to, f"{key}{body}")
        made = FollowStep().advance(self.kept, taken[::-1], 0)
        messages = [(to, self.side, key, verb, body) for to, key, verb, _, body in made if to]
        self.kept = decode(encode(self.kept))
        return messages


class Pairs:
    """All steps in a row."""

    def __init__(self) -> None:
        self.left, self.right, self.kept = Table(LEFT), Table(RIGHT), dict[str, Any]()

    def run(self, lefts: list[Change], rights: list[Change]) -> list[tuple[Any, ...]]:
        """Take one batch, its records in any order, and return what comes out."""
        rows = self.right.run(rights) + self.left.run(lefts)
        made = list(PairStep().advance(self.kept, rows, 0))
        self.kept = decode(encode(self.kept))
        return made

    def join(self) -> set[tuple[str, str]]:
        """Return the pairs of the last rows."""
        lefts, rights = self.left.rows.values(), self.right.rows.values()
        return {(body, other) for to, body in lefts for author, other in rights if to and to == author}


@given(batches=BATCHES)
def test_changes_of_pairs_add_up_to_the_join_of_the_last_rows(batches: list[Any]) -> None:
    pairs, seen = Pairs(), dict[tuple[str, str], tuple[str, str]]()
    for lefts, rights in batches:
        made = pairs.run(lefts, rights)
        keys = [(left[0], right[0]) for left, right, _ in made]
        assert len(set(keys)) == len(keys), "a pair comes out once in a batch"
        for key, (left, right, deleted) in zip(keys, made, strict=True):
            assert key in seen or not deleted, "a pair that was never there is not deleted"
            seen.pop(key, None)
            if not deleted:
                seen[key] = (left, right)
        assert set(seen.values()) == pairs.join()


def test_nothing_is_kept_of_rows_that_are_gone() -> None:
    pairs = Pairs()
    assert pairs.run([("a", "ann", "1")], [("x", "ann", "1")]) == [("a1", "x1", False)]
    assert pairs.run([("a", None, None)], [("x", "bob", "1")]) == [("a1", "x1", True)]
    pairs.run([], [("x", None, None)])
    assert pairs.kept == pairs.left.kept == pairs.right.kept == {}


def test_a_pair_whose_rows_move_to_the_same_value_is_not_deleted() -> None:
    pairs = Pairs()
    pairs.run([("a", "ann", "1")], [("x", "ann", "1")])
    assert pairs.run([("a", "bob", "2")], [("x", "bob", "2")]) == [("a2", "x2", False)]
    assert pairs.run([("a", None, "2")], [("x", None, "2")]) == [("a2", "x2", True)]
