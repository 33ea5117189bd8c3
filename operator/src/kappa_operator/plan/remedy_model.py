"""What decisions about remedies share: what a remedy acts on, how one is recorded, and how it is carried out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from kappa_crds import API_VERSION
from kappa_crds.lagremedy import RemedyKind, RemedyResult, RemedyStatus
from kappa_crds.reasons import Reason
from kappa_crds.topic import HOLD_ANNOTATION
from kappa_operator.actions import ApplyObject, EmitEvent, Manifest

_MANAGERS = {
    RemedyKind.SCALE: "kappa-lag-scale",
    RemedyKind.RESTART_STALLED: "kappa-lag-restart",
    RemedyKind.HOLD_RETENTION: "kappa-lag-retention",
}
"""A field manager for each: one apply says all that its manager wants, so two remedies of one must not take each other's fields away."""
_REASONS = {
    RemedyKind.SCALE: Reason.PIPELINE_SCALED,
    RemedyKind.RESTART_STALLED: Reason.PIPELINE_RESTARTED,
    RemedyKind.HOLD_RETENTION: Reason.RETENTION_HELD,
}


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """A pipeline that is selected: what its spec asks for, and what its status shows.

    `steady` says that it runs as its spec asks, with no change under way; `stateless` that any change begins with an empty state.
    """

    name: str
    namespace: str
    uid: str
    state: str | None
    executors: int
    nonce: str
    steady: bool = False
    stateless: bool = False


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A Topic whose topic is read: its retention in seconds, None where the spec declares none, and what is held."""

    name: str
    namespace: str
    uid: str
    retention: float | None
    hold: str = ""


def find_record(records: Iterable[RemedyStatus], kind: RemedyKind, target: str) -> RemedyStatus | None:
    """Return the last remedy of a kind for something."""
    return next((each for each in records if each.kind is kind and each.target == target), None)


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
    return facts.nonce == record.wanted


def tell(record: RemedyStatus) -> EmitEvent:
    """Return the Event of a remedy."""
    if record.result is RemedyResult.REFUSED:
        return EmitEvent(
            Reason.REMEDY_REFUSED, f"{record.kind} of {record.target}: {record.message}", warning=True
        )
    is_return = record.kind is RemedyKind.HOLD_RETENTION and not record.wanted
    reason = Reason.RETENTION_RETURNED if is_return else _REASONS[record.kind]
    return EmitEvent(reason, f"{record.target}: {record.why}")
