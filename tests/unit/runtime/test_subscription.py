"""What a source reads, and where its dead letters are: also as an older driver wrote it down."""

import json
from pathlib import Path

import pytest

from kappa_pipelines.checkpoint.store.local import LocalFolder
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.side_outputs.dead_letters.position import Position, read_position, write_position
from kappa_pipelines.side_outputs.dead_letters.worker import Owned


@pytest.fixture
def files(tmp_path: Path) -> LocalFolder:
    return LocalFolder(f"file://{tmp_path}")


@pytest.mark.parametrize(
    ("subscription", "topic", "covers"),
    [
        (Subscription(("a", "b")), "b", True),
        (Subscription(("a", "b")), "ab", False),
        (Subscription(pattern="flights-.*"), "flights-2013", True),
        (Subscription(pattern="flights-.*"), "other-flights-2013", False),
        (Subscription(pattern="a|b"), "ab", False),
    ],
)
def test_a_pattern_fits_whole_names(subscription: Subscription, topic: str, covers: bool) -> None:
    assert subscription.covers(topic) is covers


def test_a_position_reads_back_as_it_was_written(files: LocalFolder) -> None:
    position = Position("a, b", {("a", 0): 5, ("b", 1): 7})
    write_position(files, "flights", position)
    assert read_position(files, "flights") == position


def test_a_position_from_before_there_were_several_topics_is_understood(files: LocalFolder) -> None:
    stored = {"topic": "in", "offsets": {"0": 5, "1": 7}, "birth": False}
    files.write("dead-letter/flights.json", json.dumps(stored).encode())
    assert read_position(files, "flights") == Position("in", {("in", 0): 5, ("in", 1): 7})


def test_offsets_of_topics_that_a_source_does_not_read_any_more_are_left_out() -> None:
    owned = Owned("flights", Subscription(("a", "c")), "out")
    assert owned.restrict({("a", 0): 1, ("b", 0): 2}) == {("a", 0): 1}
