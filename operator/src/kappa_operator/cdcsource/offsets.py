"""The position of a connector on request: reported, or changed while it is stopped.

Only the operator reaches Kafka Connect. A request is carried out once; a change is repeated after a crash, which is harmless, as the
connector has no tasks. A position that is there already is no reason to refuse it.
"""

from datetime import datetime
from typing import Any

from kappa_crds.cdcsource import SourceState
from kappa_crds.cdcsource_requests import OffsetsRequest
from kappa_crds.cdcsource_status import OffsetsStatus
from kappa_crds.reasons import Reason
from kappa_operator import intervals
from kappa_operator.cdc.guard import format_lsn, parse_lsn
from kappa_operator.cdcsource.incremental import supersede
from kappa_operator.cdcsource.model import CDCSourceObserved, ConnectorView
from kappa_operator.cdcsource.objects import CDCSourceResource
from kappa_operator.connect.model import STOPPED
from kappa_operator.engine import actions as act
from kappa_operator.engine.plan import Plan

_KEYS = ("incremental_snapshot_primary_key", "incremental_snapshot_maximum_key")
"""Parts of a position that have keys of rows."""
_MOST, _LONGEST = 20, 300


def answer_offsets(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Report the position of the connector, change it, or record why it is not changed; None where nothing is requested."""
    resource, connector = observed.resource, observed.connector
    wanted, known = resource.spec.offsets, resource.status.offsets
    if wanted is None or connector is None or (known is not None and known.request == wanted.request):
        return None
    if wanted.set is None and not wanted.reset:
        return _answer(observed, wanted, now, "reported")
    if _is_there(wanted, observed):
        # The operator may have ended after the change, before it recorded its effects. A change leaves no incremental snapshot.
        is_changed = not any(key in (connector.offset or {}) for key in _KEYS)
        effects = _list_effects(resource, wanted, now) if is_changed else {}
        return _answer(observed, wanted, now, "the position is there already", **effects)
    refusal = explain_refusal(resource, wanted)
    if refusal is None and wanted.set is not None and connector.offset is None:
        refusal = "the connector has no position yet, so there is none to change"
    if refusal is not None:
        return _answer(observed, wanted, now, refusal, refused=True)
    if connector.state != STOPPED or connector.status.tasks:
        return None  # it is about to stop
    return _change(observed, connector, wanted, now)


def explain_refusal(resource: CDCSourceResource, wanted: OffsetsRequest) -> str | None:
    """Return why the position is not changed, None where nothing prevents it."""
    status = resource.status
    if resource.spec.postgresql is None:
        return (
            "the position in a binary log is reported only; to read all rows again set spec.snapshot.request"
        )
    if resource.spec.state is not SourceState.STOPPED:
        return (
            f"the position is changed only while the connector is stopped, and spec.state is {resource.spec.state}; set it to Stopped,"
            " and request the change with another text"
        )
    if wanted.set is None:
        return None
    if status.lost is not None:
        return f"changes were lost: {status.lost}. Another position does not bring them back; set spec.snapshot.request for a new snapshot"
    confirmed = None if status.slot is None else status.slot.confirmed
    if confirmed is not None and parse_lsn(wanted.set.lsn) < confirmed:
        return (
            f"the database has no changes before {format_lsn(confirmed)} any more, which its slot has confirmed; set that or a later"
            " position, or reset the position for a new snapshot"
        )
    return None


def describe_change(resource: CDCSourceResource, wanted: OffsetsRequest, position: int | None) -> str:
    """Return what a change means, before it is made. `position` is the present one, where it is known."""
    if wanted.set is None:
        return (
            f"the position is forgotten: with snapshot mode {resource.spec.snapshot.mode} the next start is the first one, and all topics"
            " get the rows of their tables again, or none with mode Never"
        )
    target, now = (
        parse_lsn(wanted.set.lsn),
        "an unknown position" if position is None else format_lsn(position),
    )
    if position is not None and target < position:
        return f"from {now} back to {format_lsn(target)}: changes between are written again, with the same positions"
    return f"from {now} to {format_lsn(target)}: transactions that committed between are not read, and topics lack their changes"


def _is_there(wanted: OffsetsRequest, observed: CDCSourceObserved) -> bool:
    if wanted.reset:
        return (
            observed.position is None and observed.connector is not None and observed.connector.offset is None
        )
    return wanted.set is not None and observed.position == parse_lsn(wanted.set.lsn)


def _change(
    observed: CDCSourceObserved, connector: ConnectorView, wanted: OffsetsRequest, now: datetime
) -> Plan | None:
    if observed.failures:
        return Plan(requeue_after=intervals.FAILED)
    resource, name = observed.resource, observed.resource.metadata.name
    message = describe_change(resource, wanted, observed.position)
    event = act.EmitEvent(Reason.OFFSETS_CHANGED, message, True)
    action: act.AlterOffsets | act.ForgetOffsets = act.ForgetOffsets(observed.cluster_key, name)
    fields = _list_effects(resource, wanted, now)
    if wanted.set is not None:
        entry = next(each for each in connector.offsets.offsets if each.offset)
        action = act.AlterOffsets(
            observed.cluster_key, name, entry.partition or {}, {"lsn": parse_lsn(wanted.set.lsn)}
        )
    answered = resource.status.replace(offsets=_build_answer(observed, wanted, now, message), **fields)
    return Plan((action, act.RecordStatus(answered), event), requeue=True)


def _list_effects(resource: CDCSourceResource, wanted: OffsetsRequest, now: datetime) -> dict[str, Any]:
    """Return the fields of the status that a change of the position alters."""
    forgotten = {"lost": None, "slot": None} if wanted.reset else {}
    return {"incremental": supersede(resource.status.incremental, now), **forgotten}


def _answer(
    observed: CDCSourceObserved,
    wanted: OffsetsRequest,
    now: datetime,
    message: str,
    *,
    refused: bool = False,
    **fields: Any,
) -> Plan:
    answer = _build_answer(observed, wanted, now, message).replace(refused=refused)
    return Plan((act.RecordStatus(observed.resource.status.replace(offsets=answer, **fields)),), requeue=True)


def _build_answer(
    observed: CDCSourceObserved, wanted: OffsetsRequest, now: datetime, message: str
) -> OffsetsStatus:
    """Return the answer, with the position as it was observed."""
    offset = observed.connector.offset if observed.connector else None
    position = describe_position(offset or {})
    return OffsetsStatus(
        request=wanted.request, at=now.replace(microsecond=0), message=message, position=position
    )


def describe_position(offset: dict[str, Any]) -> dict[str, str]:
    """Return a position for people: LSNs as PostgreSQL has them, and no keys of rows."""
    shown = {name: value for name, value in sorted(offset.items()) if name not in _KEYS and value is not None}
    return {
        name[:100]: format_lsn(value)
        if name.startswith("lsn") and isinstance(value, int) and value > 2**20
        else str(value)[:_LONGEST]
        for name, value in list(shown.items())[:_MOST]
    }
