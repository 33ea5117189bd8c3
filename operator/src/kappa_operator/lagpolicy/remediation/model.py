"""What decisions about remediations share: what a remediation acts on, how one is recorded, and how it is carried out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kappa_crds import API_VERSION
from kappa_crds.lagremediation import RemediationKind, RemediationResult, RemediationStatus, Saved
from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import ApplyObject, EmitEvent, Manifest
from kappa_operator.lag.evaluate import Verdict
from kappa_operator.lag.load import Load

_MANAGERS = {
    RemediationKind.SCALE: "kappa-lag-scale",
    RemediationKind.RAISE_BATCH_LIMIT: "kappa-lag-batch",
    RemediationKind.RESTART_STALLED: "kappa-lag-restart",
    RemediationKind.HOLD_RETENTION: "kappa-lag-retention",
}
"""A field manager for each: an apply replaces all fields of its manager, so two remediations must not share one. Holds of several policies have one each."""
_REASONS = {
    RemediationKind.SCALE: Reason.PIPELINE_SCALED,
    RemediationKind.RAISE_BATCH_LIMIT: Reason.BATCH_LIMIT_CHANGED,
    RemediationKind.RESTART_STALLED: Reason.PIPELINE_RESTARTED,
    RemediationKind.HOLD_RETENTION: Reason.RETENTION_HELD,
    RemediationKind.THROTTLE_PRODUCERS: Reason.PRODUCER_THROTTLED,
}


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """A pipeline that is selected: its spec, and what its status shows.

    `max_records` is spec.trigger.maxRecords where that is declared, for all `sources` together. `steady` is whether it runs as specified, with no change under way; `stateless` whether any change starts from empty state.
    `keeps_savepoints`: whether its spec bounds how many there are or how long they are kept, `saves_changes`: whether one is taken before each
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
class PipelineCase:
    """A pipeline with the worst verdict of its group and the reason, the records that wait in all partitions, and its load."""

    facts: PipelineFacts
    verdict: Verdict
    why: str
    waits: int
    load: Load | None = None


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A Topic whose topic is read: its retention in seconds, None where the spec declares none, and what is held."""

    name: str
    namespace: str
    uid: str
    retention: float | None
    hold: str = ""
    annotation: str = ""
    """The annotation of this policy's hold."""


@dataclass(frozen=True, slots=True)
class SavepointFacts:
    """A Savepoint that a remediation waits for."""

    name: str
    pipeline: str
    state: str | None = None
    taken: bool = False
    deleting: bool = False
    message: str = "it was not looked at yet"


def get_identity(record: RemediationStatus) -> tuple[str, str, str]:
    """Return what there is one record of: a remediation for something, which may be of several Kafka clusters."""
    return record.kind.value, record.target, record.cluster or ""


def find_record(
    records: Iterable[RemediationStatus], kind: RemediationKind, target: str
) -> RemediationStatus | None:
    """Return the last remediation of a kind for something."""
    return next((each for each in records if each.kind is kind and each.target == target), None)


def name_remediation(kind: RemediationKind) -> str:
    """Return the name of a remediation in spec.remediation."""
    return kind.value[:1].lower() + kind.value[1:]


def is_cooling(record: RemediationStatus | None, seconds: float, now: datetime) -> bool:
    """Return whether the last one is too young for another one."""
    return record is not None and (now - record.at).total_seconds() < seconds


def undo(held: RemediationStatus, wanted: str, why: str, now: datetime) -> RemediationStatus:
    """Return the end of a remediation: what was there before is restored."""
    return RemediationStatus(
        kind=held.kind, target=held.target, cluster=held.cluster, before=held.wanted, wanted=wanted,
        at=now.replace(microsecond=0), why=why, count=held.count, rates=held.rates,
    )  # fmt: skip


def build_action(record: RemediationStatus, facts: PipelineFacts | TopicFacts) -> ApplyObject:
    """Return what carries a remediation out; doing it again changes nothing. The uid keeps it from another object of that name."""
    metadata: Manifest = {"name": facts.name, "namespace": facts.namespace, "uid": facts.uid}
    manifest: Manifest = {"apiVersion": API_VERSION, "metadata": metadata}
    if isinstance(facts, TopicFacts):
        metadata["annotations"] = {facts.annotation: record.wanted}
        return ApplyObject(
            {**manifest, "kind": "Topic"}, f"{_MANAGERS[record.kind]}-{facts.annotation.rpartition('/')[2]}"
        )
    match record.kind:
        case RemediationKind.SCALE:
            spec = {"resources": {"executors": {"count": int(record.wanted)}}}
            manifest |= {"kind": "Pipeline", "spec": spec}
        case RemediationKind.RAISE_BATCH_LIMIT:
            manifest |= {"kind": "Pipeline", "spec": {"trigger": {"maxRecords": int(record.wanted)}}}
        case RemediationKind.RESTART_STALLED:
            manifest |= {"kind": "Pipeline", "spec": {"restartNonce": record.wanted}}
    return ApplyObject(manifest, _MANAGERS[record.kind])


def is_carried_out(record: RemediationStatus, facts: PipelineFacts | TopicFacts) -> bool:
    """Return whether the object is as the remediation wants it."""
    if isinstance(facts, TopicFacts):
        return facts.hold == record.wanted
    if record.kind is RemediationKind.SCALE:
        return facts.executors == int(record.wanted)
    if record.kind is RemediationKind.RAISE_BATCH_LIMIT:
        return facts.max_records == int(record.wanted)
    return facts.nonce == record.wanted


def tell(record: RemediationStatus) -> EmitEvent:
    """Return the Event of a remediation."""
    ended = f"{record.kind} of {record.target}: {record.message}"
    if record.result is RemediationResult.REFUSED:
        return EmitEvent(Reason.REMEDIATION_REFUSED, ended, warning=True)
    if record.result is RemediationResult.WITHDRAWN:
        return EmitEvent(Reason.REMEDIATION_WITHDRAWN, ended)
    if record.saved is Saved.TAKING:
        message = f"{record.target}: savepoint {record.savepoint} is taken before {record.kind}; {record.why}"
        return EmitEvent(Reason.REMEDIATION_SAVING, message)
    if is_blocked(record):
        return EmitEvent(Reason.REMEDIATION_REFUSED, f"{ended}; it is tried again", warning=True)
    reason = _find_reason(record)
    if record.saved is Saved.WITHOUT:
        return EmitEvent(reason, f"{record.target}: {record.why}; {record.message}", warning=True)
    return EmitEvent(reason, f"{record.target}: {record.why}")


def _find_reason(record: RemediationStatus) -> Reason:
    if record.kind is RemediationKind.HOLD_RETENTION and not record.wanted:
        return Reason.RETENTION_RESTORED
    if record.kind is RemediationKind.THROTTLE_PRODUCERS and record.original is None:
        return Reason.PRODUCER_RELEASED
    return _REASONS[record.kind]


def is_blocked(record: RemediationStatus) -> bool:
    """Return whether something keeps a remediation from being taken back."""
    is_pause = record.kind is RemediationKind.THROTTLE_PRODUCERS
    return is_pause and record.result is RemediationResult.PENDING and record.message is not None


def is_news(record: RemediationStatus, before: RemediationStatus | None) -> bool:
    """Return whether it is worth an Event: a remediation that is taken, refused or withdrawn, or waits for a savepoint; not one that is renewed."""
    if before is None or before.at != record.at:
        return True
    ended = record.result in (RemediationResult.REFUSED, RemediationResult.WITHDRAWN)
    if is_blocked(record):
        return record.message != before.message
    return (ended and before.result is not record.result) or (
        before.saved is Saved.TAKING and record.saved is not Saved.TAKING
    )
