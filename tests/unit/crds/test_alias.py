"""The alias of an output: the present topic, and where its readers moved."""

from datetime import UTC, datetime, timedelta

from kappa_crds.alias import Alias, resolve_alias
from kappa_crds.pipeline_status import OutputTopic, PipelineStatus, Run, RunRole
from kappa_crds.reprocessing import Cut, ReprocessingPhase, ReprocessingStatus, TopicPosition

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(topic: str, *offsets: int) -> TopicPosition:
    return TopicPosition(topic=topic, offsets={str(part): offset for part, offset in enumerate(offsets)})


def cut(hours: int, old: tuple[TopicPosition, ...], new: tuple[TopicPosition, ...]) -> Cut:
    return Cut(inputs=(at("in", 5),), old=old, new=new, taken=START + timedelta(hours=hours))


def status(topic: str, version: int) -> PipelineStatus:
    return PipelineStatus(
        runs=(Run(role=RunRole.ACTIVE, outputs=version),), outputs=(OutputTopic(name="out", topic=topic),)
    )


def resolve(topic: str, version: int, **reprocessings: ReprocessingStatus) -> Alias:
    found = resolve_alias("out", status(topic, version), reprocessings.items())
    assert found is not None
    return found


def test_an_output_that_was_never_reprocessed_has_no_moves() -> None:
    assert resolve("shop.out", 0) == Alias("out", "shop.out")


def test_a_topic_that_the_active_run_does_not_write_has_no_alias() -> None:
    assert resolve_alias("other", status("shop.out", 0), ()) is None


def test_moves_are_in_order_of_time_and_only_of_this_output() -> None:
    second = ReprocessingStatus(cut=cut(2, (at("out.r1", 7, 8),), (at("out.r2", 3, 4),)))
    first = ReprocessingStatus(
        cut=cut(1, (at("out", 1, 2), at("outer", 9)), (at("out.r1", 5, 6), at("outer.r1", 9)))
    )
    moves = resolve("out.r2", 2, b=second, a=first).moves
    assert [(move.old, move.new) for move in moves] == [("out", "out.r1"), ("out.r1", "out.r2")]
    assert (moves[0].until, moves[0].begin) == ({0: 1, 1: 2}, {0: 5, 1: 6})
    assert [move.reprocessing for move in moves] == ["a", "b"]


def test_after_a_rollback_readers_moved_there_and_back() -> None:
    there, back = (at("out", 1),), (at("out.r1", 5),)
    both = ReprocessingStatus(
        cut=cut(1, there, back), rollback_cut=cut(2, (at("out.r1", 9),), (at("out", 4),))
    )
    assert [(move.old, move.new) for move in resolve("out", 0, a=both).moves] == [
        ("out", "out.r1"),
        ("out.r1", "out"),
    ]


def test_a_cut_that_is_recorded_before_the_roles_are_exchanged_moves_nobody_yet() -> None:
    recorded = ReprocessingStatus(cut=cut(1, (at("out", 1),), (at("out.r1", 5),)))
    assert resolve("out", 0, a=recorded) == Alias("out", "out")
    pending = resolve("out", 0, a=recorded.replace(phase=ReprocessingPhase.CUTTING_OVER)).pending
    assert pending is not None
    assert (pending.old, pending.until, pending.new) == ("out", {0: 1}, "out.r1")
    made = resolve("out.r1", 1, a=recorded.replace(phase=ReprocessingPhase.CUTTING_OVER))
    assert (len(made.moves), made.pending) == (1, None)


def test_a_rollback_that_is_recorded_is_pending_until_the_roles_are_exchanged() -> None:
    rolling = ReprocessingStatus(
        phase=ReprocessingPhase.ROLLING_BACK,
        cut=cut(1, (at("out", 1),), (at("out.r1", 5),)),
        rollback_cut=cut(2, (at("out.r1", 9),), (at("out", 4),)),
    )
    found = resolve("out.r1", 1, a=rolling)
    assert [move.new for move in found.moves] == ["out.r1"]
    assert found.pending is not None
    assert (found.pending.new, found.pending.until) == ("out", {0: 9})


def test_readers_of_a_version_that_could_not_be_held_have_no_exact_end() -> None:
    (move,) = resolve("out.r1", 1, a=ReprocessingStatus(cut=cut(1, (), (at("out.r1", 5),)))).moves
    assert (move.old, move.until, move.begin) == ("out", {}, {0: 5})
