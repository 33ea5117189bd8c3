"""What a writer has written, as Kafka keeps it: what a task makes of it before it writes."""

import pytest

from kappa_pipelines.sinks.commit_marker import CommitMarker, WriteDecision, decide_write, parse_marker

MARK = CommitMarker(7, "client", {"old/q": 40, "new/q": 12})


@pytest.mark.parametrize(
    ("case", "mark", "life", "batch", "standing"),
    [
        ("the next batch", MARK, "new/q", 13, WriteDecision.TO_WRITE),
        ("a batch that is repeated", MARK, "new/q", 12, WriteDecision.WRITTEN),
        ("an older batch", MARK, "new/q", 3, WriteDecision.WRITTEN),
        ("the first batch of a restored checkpoint", MARK, "restored/q", 12, WriteDecision.TO_WRITE),
        ("a repeated batch of the checkpoint that is gone back to", MARK, "old/q", 40, WriteDecision.WRITTEN),
        ("a newer driver has taken over", CommitMarker(8), "new/q", 13, WriteDecision.FENCED),
        ("a newer driver has taken over, and the batch was written", CommitMarker(8, "", {"new/q": 13}), "new/q", 13, WriteDecision.FENCED),
        ("Kafka has forgotten the mark", None, "new/q", 13, WriteDecision.LOST),
        ("nobody has taken over", CommitMarker(6, "", {"new/q": 13}), "new/q", 13, WriteDecision.LOST),
    ],
)  # fmt: skip
def test_a_task_knows_by_the_mark_whether_to_write(
    case: str, mark: CommitMarker | None, life: str, batch: int, standing: WriteDecision
) -> None:
    assert decide_write(mark, 7, life, batch) is standing, case


def test_a_mark_is_read_back_as_it_was_written() -> None:
    assert parse_marker(MARK.to_text()) == MARK


@pytest.mark.parametrize(
    "text", [None, "", "by hand", "{}", "[]", '{"generation":1,"producer":"","written":3}']
)
def test_what_this_runtime_did_not_write_is_no_mark(text: str | None) -> None:
    assert parse_marker(text) is None


def test_a_takeover_keeps_written_batches_and_fenced_producers() -> None:
    mark = MARK.taken_over(9, "new/q", 12)
    assert (mark.generation, mark.producer, mark.written) == (9, "", MARK.written)


def test_a_takeover_forgets_a_batch_that_the_checkpoint_does_not_know() -> None:
    """Its number will be that of a batch with other rows."""
    assert MARK.taken_over(9, "new/q", 11).written == {"old/q": 40}
    assert MARK.taken_over(9, None, -1).written == MARK.written


def test_of_many_lives_the_last_ones_are_remembered_within_what_kafka_takes() -> None:
    mark = CommitMarker(1)
    lives = [
        f"00000000-0000-0000-0000-000000000000-{n}/00000000-0000-0000-0000-000000000000" for n in range(40)
    ]
    for batch, life in enumerate(lives):
        mark = mark.after(life, batch, "client")
    assert list(mark.written) == lives[-8:]
    assert mark.last == 39
    assert len(mark.to_text()) < 4096


def test_a_continuing_life_is_the_last_to_be_dropped() -> None:
    mark = MARK.after("old/q", 41, "client")
    assert list(mark.written.items()) == [("new/q", 12), ("old/q", 41)]
