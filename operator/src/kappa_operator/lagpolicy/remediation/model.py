"""What decisions about remedies share: what a remedy acts on, how one is recorded, and how it is carried out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kappa_crds import API_VERSION
from kappa_crds.lagremedy import RemedyKind, RemedyResult, RemedyStatus, Saved
from kappa_crds.reasons import Reason
from kappa_crds.topic import HOLD_ANNOTATION
from kappa_operator.engine.actions import ApplyObject, EmitEvent, Manifest

_MANAGERS = {
    RemedyKind.SCALE: "kappa-lag-scale",
    RemedyKind.RAISE_BATCH_LIMIT: "kappa-lag-batch",
    RemedyKind.RESTART_STALLED: "kappa-lag-restart",
    RemedyKind.HOLD_RETENTION: "kappa-lag-retention",
}
"""A field manager for each: one apply says all that its manager wants, so two remedies of one must not take each other's fields away."""
_REASONS = {
    RemedyKind.SCALE: Reason.PIPELINE_SCALED,
    RemedyKind.RAISE_BATCH_LIMIT: Reason.BATCH_LIMIT_CHANGED,
    RemedyKind.RESTART_STALLED: Reason.PIPELINE_RESTARTED,
    RemedyKind.HOLD_RETENTION: Reason.RETENTION_HELD,
    RemedyKind.PAUSE_PRODUCERS: Reason.PRODUCER_SLOWED,
}


_NAMES = {
    RemedyKind.SCALE: "scale",
    RemedyKind.RAISE_BATCH_LIMIT: "raiseBatchLimit",
    RemedyKind.RESTART_STALLED: "restartStalled",
    RemedyKind.HOLD_RETENTION: "holdRetention",
    RemedyKind.PAUSE_PRODUCERS: "pauseProducers",
}


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """A pipeline that is selected: what its spec asks for, and what its status shows.

    `max_records` is spec.trigger.maxRecords where that is declared, for all `sources` together. `steady` says that it runs as its spec asks, with no change under way; `stateless` that any change begins with an empty state.
    `keeps_savepoints` says that its spec bounds how many there are or how long they are kept, `saves_changes` that one is taken before each
    change anyway.
    """

    name: str
    namespace: str
    uid: str
    state: str | None
    executors: int
    nonce: str
    max_records: int | None = None
    sources: int = 1
    steady: bool = False
    stateless: bool = False
    keeps_savepoints: bool = False
    saves_changes: bool = False


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A Topic whose topic is read: its retention in seconds, None where the spec declares none, and what is held."""

    name: str
    namespace: str
    uid: str
    retention: float | None
    hold: str = ""


@dataclass(frozen=True, slots=True)
class SavepointFacts:
    """A Savepoint that a remedy waits for."""

    name: str
    pipeline: str
    state: str | None = None
    taken: bool = False
    deleting: bool = False
    message: str = "it was not looked at yet"


def get_identity(record: RemedyStatus) -> tuple[str, str, str]:
    """Return what there is one record of: a remedy for something, which may be of several Kafka clusters."""
    return record.kind.value, record.target, record.cluster or ""


def find_record(records: Iterable[RemedyStatus], kind: RemedyKind, target: str) -> RemedyStatus | None:
    """Return the last remedy of a kind for something."""
    return next((each for each in records if each.kind is kind and each.target == target), None)


def name_remedy(kind: RemedyKind) -> str:
    """Return the name of a remedy in spec.remedies."""
    return _NAMES[kind]


def is_cooling(record: RemedyStatus | None, seconds: float, now: datetime) -> bool:
    """Return whether the last one is too young for another one."""
    return record is not None and (now - record.at).total_seconds() < seconds


def build_action(record: RemedyStatus, facts: PipelineFacts | TopicFacts) -> ApplyObject:
    """Return what carries a remedy out; doing it again changes nothing. The uid keeps it from another object of that name."""
    metadata = {"name": facts.name, "namespace": facts.namespace, "uid": facts.uid}
    manifest: Manifest = {"apiVersion": API_VERSION, "metadata": metadata}
    match record.kind:
        case RemedyKind.SCALE:
            spec = {"resources": {"executors": {"count": int(record.wanted)}}}
            manifest |= {"kind": "Pipeline", "spec": spec}
        case RemedyKind.RAISE_BATCH_LIMIT:
            manifest |= {"kind": "Pipeline", "spec": {"trigger": {"maxRecords": int(record.wanted)}}}
        case RemedyKind.RESTART_STALLED:
            manifest |= {"kind": "Pipeline", "spec": {"restartNonce": record.wanted}}
        case RemedyKind.HOLD_RETENTION:
            metadata |= {"annotations": {HOLD_ANNOTATION: record.wanted}}  # type: ignore[dict-item]
            manifest |= {"kind": "Topic"}
    return ApplyObject(manifest, _MANAGERS[record.kind])


def is_carried_out(record: RemedyStatus, facts: PipelineFacts | TopicFacts) -> bool:
    """Return whether the object is as the remedy wants it."""
    if isinstance(facts, TopicFacts):
        return facts.hold == record.wanted
    if record.kind is RemedyKind.SCALE:
        return facts.executors == int(record.wanted)
    if record.kind is RemedyKind.RAISE_BATCH_LIMIT:
        return facts.max_records == int(record.wanted)
    return facts.nonce == record.wanted


def tell(record: RemedyStatus) -> EmitEvent:
    """Return the Event of a remedy."""
    if record.result is RemedyResult.REFUSED:
        return EmitEvent(
            Reason.REMEDY_REFUSED, f"{record.kind} of {record.target}: {record.message}", warning=True
        )
    if record.result is RemedyResult.WITHDRAWN:
        return EmitEvent(Reason.REMEDY_WITHDRAWN, f"{record.kind} of {record.target}: {record.message}")
    if record.saved is Saved.TAKING:
        said = f"{record.target}: savepoint {record.savepoint} is taken before {record.kind}; {record.why}"
        return EmitEvent(Reason.REMEDY_SAVING, said)
    if is_blocked(record):
        return EmitEvent(
            Reason.REMEDY_REFUSED,
            f"{record.kind} of {record.target}: {record.message}; it is tried again",
            warning=True,
        )
    reason = _find_reason(record)
    if record.saved is Saved.WITHOUT:
        return EmitEvent(reason, f"{record.target}: {record.why}; {record.message}", warning=True)
    return EmitEvent(reason, f"{record.target}: {record.why}")


def _find_reason(record: RemedyStatus) -> Reason:
    if record.kind is RemedyKind.HOLD_RETENTION and not record.wanted:
        return Reason.RETENTION_RETURNED
    if record.kind is RemedyKind.PAUSE_PRODUCERS and record.original is None:
        return Reason.PRODUCER_FREED
    return _REASONS[record.kind]


def is_blocked(record: RemedyStatus) -> bool:
    """Return whether something keeps a remedy from being taken back."""
    is_pause = record.kind is RemedyKind.PAUSE_PRODUCERS
    return is_pause and record.result is RemedyResult.PENDING and record.message is not None


def is_news(record: RemedyStatus, before: RemedyStatus | None) -> bool:
    """Return whether it is worth an Event: a remedy that is taken, refused or withdrawn, or waits for a savepoint; not one that is renewed."""
    if before is None or before.at != record.at:
        return True
    ended = record.result in (RemedyResult.REFUSED, RemedyResult.WITHDRAWN)
    if is_blocked(record):
        return record.message != before.message
    return (ended and before.result is not record.result) or (
        before.saved is Saved.TAKING and record.saved is not Saved.TAKING
    )
