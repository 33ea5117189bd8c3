"""The race of a replay with retention: reported before records are removed that the new version has not read (ADR 68)."""

from collections.abc import Mapping
from datetime import datetime

from kappa_crds.progress import Progress
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import ReprocessingPhase
from kappa_operator.engine.actions import EmitEvent, RecordStatus
from kappa_operator.engine.plan import Plan
from kappa_operator.lag.model import Partition
from kappa_operator.log.facts import LogFacts, LogSettings
from kappa_operator.log.overtake import RaceSample
from kappa_operator.reprocessing.catch_up import list_positions, measure
from kappa_operator.reprocessing.model import ReprocessingObserved


def list_races(progress: Progress, facts: LogFacts, at: datetime) -> dict[Partition, RaceSample]:
    """Return for each partition where the replay and the start of the log are; without a log that is known, none.

    Retention does not touch what is still read from an archive.
    """
    starts = {
        Partition(topic.topic, part.number): part.log.start
        for source in facts.sources
        for topic in source.topics
        for part in topic.partitions
        if part.log is not None
    }
    archived = {
        Partition(topic.topic, part.number): part.archived[1]
        for source in facts.sources
        for topic in source.topics
        for part in topic.partitions
        if part.archived is not None and not part.missing
    }
    stamp = None if progress.replayed_until is None else progress.replayed_until.timestamp()
    return {
        partition: RaceSample(at, each.position, starts[partition], stamp)
        for partition, each in list_positions(progress, at).items()
        if partition in starts and each.position < each.end and each.position >= archived.get(partition, 0)
    }


def list_settings(facts: LogFacts) -> Mapping[str, LogSettings]:
    """Return the settings of the topics that they are known of."""
    topics = (topic for source in facts.sources for topic in source.topics)
    return {each.topic: each.settings for each in topics if each.settings is not None}


def warn_of_overtake(observed: ReprocessingObserved, now: datetime) -> Plan | None:
    """Record that retention will remove unread records, with one Event; how urgent it is follows with each report."""
    if observed.phase is not ReprocessingPhase.CATCHING_UP or not observed.overtakes:
        return None
    known = observed.status.catch_up
    measured = measure(observed, now)
    if measured is None or measured.overtake is None or (known is not None and known.overtake is not None):
        return None
    event = EmitEvent(Reason.RETENTION_OVERTAKES, measured.overtake, warning=True)
    return Plan((RecordStatus(observed.status.replace(catch_up=measured)), event), requeue=True)
