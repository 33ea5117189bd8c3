"""What a writer has written, as Kafka keeps it, and what a takeover changes."""

import pytest

from kappa_pipelines.sinks.commit_marker import CommitMarker, parse_marker

MARK = CommitMarker(7, "client", {"old/q": 40, "new/q": 12})


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
