"""The proof that a log is whole against a real broker that removes records in each of its ways."""

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from fakes.replays import report_replay
from integration.lag_scenes import COMPACTED, Scene, every
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.lag.model import Partition
from kappa_operator.log.facts import Edge, Known, LogFacts, Question, Start, Use
from kappa_operator.log.observe import observe_log
from kappa_operator.log.overtake import RaceSample, find_overtakes
from kappa_operator.log.proof import Gap, SourceProof, Verdict
from kappa_operator.log.prove import prove
from kappa_operator.reprocessing.race import list_races, list_settings
from lab.broker import Broker

pytestmark = pytest.mark.clusterless

FAST = {
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "200",
}
DAY = 86_400.0


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with Broker(properties=FAST) as broker:
        yield Scene(broker.bootstrap)


async def observe(scene: Scene, *questions: Question, known: Known | None = None) -> LogFacts:
    settings = {"bootstrap.servers": scene.bootstrap, "security.protocol": "plaintext", "client.id": "test"}
    connection = Connection(KafkaAccess.of(settings))
    try:
        return await observe_log(connection, questions, known)
    finally:
        await connection.close()


async def judge(
    scene: Scene,
    topic: str,
    *,
    use: Use = Use.STREAM,
    start: Start = Edge.EARLIEST,
    known: Known | None = None,
) -> SourceProof:
    (source,) = prove(
        await observe(scene, Question("events", (topic,), use=use, start=start), known=known)
    ).sources
    return source


async def judge_until(
    scene: Scene, topic: str, holds: Callable[[SourceProof], bool], *, use: Use = Use.STREAM
) -> SourceProof:
    deadline = time.monotonic() + 30
    while not holds(found := await judge(scene, topic, use=use)):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.2)
    return found


def read_first(scene: Scene, partition: Partition) -> datetime:
    """Return the time of the first record that a consumer gets."""
    records = scene.read([partition])[partition]
    return datetime.fromtimestamp(records[min(records)] / 1000, UTC)


async def test_a_log_with_all_of_its_records_is_whole(scene: Scene) -> None:
    scene.make("whole", 3)
    for number in range(2):
        scene.write(Partition("whole", number), every(1, 10, last=100))
    found = await judge(scene, "whole")
    assert (found.verdict, found.partitions, found.records) == (Verdict.WHOLE, 3, 20)


async def test_deleted_records_are_missing_with_their_offsets_and_the_time_of_what_is_left(
    scene: Scene,
) -> None:
    scene.make("deleted", 2)
    cut = Partition("deleted", 1)
    for number in range(2):
        scene.write(Partition("deleted", number), every(60, 20, last=DAY))
    scene.truncate(cut, 7)
    found = await judge(scene, "deleted")
    first = read_first(scene, cut)
    assert found.gaps == (Gap(topic="deleted", partition=1, first=0, last=6, before=first),)
    assert found.records == 33

    later, earlier = first + timedelta(seconds=30), first - timedelta(seconds=30)
    assert (await judge(scene, "deleted", start=later)).verdict is Verdict.WHOLE
    part = await judge(scene, "deleted", start=earlier)
    assert [gap.at_most for gap in part.gaps] == [True]


async def test_a_log_that_was_emptied_has_lost_all_of_it(scene: Scene) -> None:
    scene.make("emptied", 1)
    scene.write(Partition("emptied", 0), every(1, 5, last=10))
    scene.truncate(Partition("emptied", 0), -1)
    found = await judge(scene, "emptied")
    assert found.gaps == (Gap(topic="emptied", partition=0, first=0, last=4),)


async def test_what_retention_removed_is_missing(scene: Scene) -> None:
    scene.make("aged", 1, segment_bytes="1048576", segment_ms="100", retention_ms="3600000")
    scene.write(Partition("aged", 0), [*every(1, 6, last=2 * 3600), *every(1, 4, last=60)])
    found = await judge_until(scene, "aged", lambda found: bool(found.gaps) and found.gaps[0].last == 5)
    (gap,) = found.gaps
    assert gap.before == read_first(scene, Partition("aged", 0))
    assert gap.first == 0
    assert found.records == 10 - gap.offsets
    assert "retention 1h" in found.notes[0]


async def test_a_topic_that_was_created_again_has_another_id(scene: Scene) -> None:
    scene.make("again", 1)
    scene.write(Partition("again", 0), every(1, 9, last=10))
    before = (await observe(scene, Question("events", ("again",)))).sources[0].topics[0].identity
    assert before is not None
    known = Known({"again": before}, {Partition("again", 0): 9})
    assert (await judge(scene, "again", known=known)).verdict is Verdict.WHOLE
    scene.delete("again")
    scene.make("again", 1)
    scene.write(Partition("again", 0), every(1, 4, last=5))
    assert (await judge(scene, "again")).verdict is Verdict.WHOLE
    found = await judge(scene, "again", known=known)
    assert found.verdict is Verdict.MISSING
    assert "deleted and created again" in found.reasons[0]
    by_progress = await judge(scene, "again", known=Known(committed=known.committed))
    assert by_progress.gaps == (Gap(topic="again", partition=0, first=4, last=8),)


async def test_a_compacted_topic_is_whole_for_a_table_and_not_for_a_stream(scene: Scene) -> None:
    scene.make("compacted", 1, **{name.replace(".", "_"): value for name, value in COMPACTED.items()})
    partition = Partition("compacted", 0)
    scene.write(partition, every(1, 30, last=100), keys=3)
    await asyncio.sleep(0.3)
    scene.write_now(partition)
    found = await judge_until(scene, "compacted", lambda found: bool(found.gaps))
    first = min(scene.read([partition])[partition])
    assert found.verdict is Verdict.MISSING
    assert (found.gaps[0].first, found.gaps[0].last) == (0, first - 1)
    assert (await judge(scene, "compacted", use=Use.TABLE)).verdict is Verdict.WHOLE


async def test_a_compacted_topic_whose_records_are_young_is_whole(scene: Scene) -> None:
    scene.make("young", 1, cleanup_policy="compact", min_compaction_lag_ms="604800000")
    scene.write(Partition("young", 0), every(1, 9, last=100), keys=3)
    assert (await judge(scene, "young")).verdict is Verdict.WHOLE


async def test_a_topic_that_is_not_there_is_unknown(scene: Scene) -> None:
    assert (await judge(scene, "nowhere")).verdict is Verdict.UNKNOWN


async def test_a_pattern_stands_for_the_topics_that_were_read(scene: Scene) -> None:
    scene.make("pattern-a", 1)
    pattern = Question("events", pattern="pattern-.*")
    known = Known(committed={Partition("pattern-a", 0): 0})
    (source,) = prove(await observe(scene, pattern, known=known)).sources
    assert (source.verdict, source.topics) == (Verdict.WHOLE, ("pattern-a",))


_KEPT = 12.0
"""Seconds for which a broker keeps records in a race."""
_STEP, _RECORDS = 0.5, 40
"""Seconds from a record to the next one, and how many there are."""


@pytest.mark.parametrize("speed", [0.25, 4.0])
async def test_a_replay_that_retention_will_overtake_is_named_before_its_records_are_gone(
    scene: Scene, speed: float
) -> None:
    at, began = Partition(f"raced-{speed}", 0), time.time()
    scene.make(at.topic, 1, segment_bytes="1048576", segment_ms="100", retention_ms=f"{_KEPT * 1000:.0f}")
    first = began - _KEPT / 2
    scene.write(at, [scene.now / 1000 - (first + _STEP * number) for number in range(_RECORDS)])
    samples: list[RaceSample] = []
    predicted: list[datetime] = []
    while True:
        facts, now = await observe(scene, Question("events", (at.topic,))), datetime.now(UTC)
        position = min(_RECORDS, int((time.time() - began) * speed / _STEP))
        read_until = datetime.fromtimestamp(first + _STEP * position, UTC)
        progress = report_replay(at.topic, position, _RECORDS, read_until, read_until)
        samples += list_races(progress, facts, now).values()
        found = find_overtakes({at: samples}, list_settings(facts), now)
        if position == _RECORDS or any(each.lost for each in found):
            break
        predicted += [each.at for each in found]
        await asyncio.sleep(0.2)
    if speed > 1:
        assert position == _RECORDS, found
        return
    assert position < _RECORDS
    assert predicted, "the danger is named only when records are gone"
    assert predicted[0] <= now, "it is named for a later time than that of the loss"
