"""A replay that retention overtakes is reported before records are gone, by what driver and log report."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes.kubelet import SINCE
from fakes.replays import report_replay
from kappa_crds.progress import Progress
from kappa_operator.lag.model import Partition, PartitionLog
from kappa_operator.log.facts import (
    LogFacts,
    LogSettings,
    PartitionFacts,
    Question,
    Record,
    SourceFacts,
    TopicFacts,
)
from kappa_operator.log.overtake import find_overtakes
from kappa_operator.reprocessing.race import list_races, list_settings
from unit.control.lives import both, write
from unit.control.reprocessings import FIXED, SPEC, find_all, live, pause_at

NOW = datetime(2026, 1, 10, tzinfo=UTC)
AT = Partition("in", 0)


def report(position: int, replayed_until: datetime | None) -> Progress:
    return report_replay("in", position, 100, SINCE, replayed_until)


def state_log(start: int, **configs: str) -> LogFacts:
    partition = PartitionFacts(0, PartitionLog(start, 100, 100), begin=0)
    settings = LogSettings.parse({"cleanup.policy": "delete", **configs})
    topic = TopicFacts("in", settings=settings, partitions=(partition,))
    return LogFacts(NOW, (SourceFacts(Question("events", ("in",)), (topic,)),))


def find(progress: Progress, facts: LogFacts) -> list[timedelta]:
    """The time that is left, for each partition in danger."""
    samples = {at: [sample] for at, sample in list_races(progress, facts, NOW).items()}
    return [each.at - NOW for each in find_overtakes(samples, list_settings(facts), NOW)]


WEEK = {"retention.ms": str(7 * 86_400_000)}


@pytest.mark.parametrize(
    ("progress", "facts", "left"),
    [
        (report(50, NOW - timedelta(days=6)), state_log(0, **WEEK), [timedelta(days=1)]),
        (report(50, NOW - timedelta(days=8)), state_log(0, **WEEK), [timedelta(0)]),
        (report(50, NOW - timedelta(days=8)), state_log(0, **{"retention.ms": "-1"}), []),
        (report(50, None), state_log(0, **WEEK), []),
        (report(50, None), state_log(60, **WEEK), [timedelta(0)]),
        (report(100, NOW - timedelta(days=8)), state_log(0, **WEEK), []),
    ],
    ids=["a day is left", "too late", "nothing is removed", "no time is known", "removed", "all is read"],
)
def test_the_time_of_the_replay_is_the_age_of_its_oldest_record(
    progress: Progress, facts: LogFacts, left: list[timedelta]
) -> None:
    assert find(progress, facts) == left


async def test_what_retention_has_removed_is_in_the_status_and_one_event() -> None:
    life = await live(write(SPEC))
    both(pause_at("CatchingUp"), write(FIXED))(life)
    life.node.queries = lambda _pod: report(10, None).queries
    await life.settle()
    log: Any = PartitionFacts(0, PartitionLog(40, 100, 100), Record(40, 0), 0)
    life.operator.brokers["kafka:9092"].logs[AT] = log
    for _ in range(6):
        await life.step()
        life.operator.clock.advance(70)
    (body,) = find_all(life)
    wanted = "retention has removed 30 offsets of partition 0 of in that the replay has not read"
    assert body["status"]["catchUp"]["overtake"] == wanted
    assert len(life.operator.list_events("RetentionOvertakes")) == 1
    assert any(wanted in each["message"] for each in body["status"]["conditions"])


@pytest.mark.parametrize(("position", "count"), [(10, 0), (59, 0), (60, 1)])
def test_retention_does_not_touch_what_is_read_from_an_archive(position: int, count: int) -> None:
    partition = PartitionFacts(0, PartitionLog(50, 100, 100), begin=0, archived=(0, 60))
    topic = TopicFacts("in", settings=LogSettings(), partitions=(partition,))
    facts = LogFacts(NOW, (SourceFacts(Question("events", ("in",)), (topic,)),))
    assert len(list_races(report(position, None), facts, NOW)) == count
