"""The savepoint before a remediation that gives a pipeline another driver.

The change itself keeps the state, has a dry run, and is rolled back if it fails. The savepoint covers another case: a driver that made
no progress for a reason, and fails when it continues. It delays a remediation at most as long as the policy allows.
"""

from collections.abc import Sequence
from datetime import datetime

from kappa_crds.lagremediation import (
    Remediation,
    RemediationKind,
    RemediationResult,
    RemediationStatus,
    Saved,
    SavepointBefore,
    SavepointWhen,
)
from kappa_crds.quantities import parse_duration
from kappa_crds.savepoint import Cause, SavepointState
from kappa_operator.engine.actions import CreateObject
from kappa_operator.engine.plan import Failure
from kappa_operator.lagpolicy.remediation.model import PipelineFacts, SavepointFacts
from kappa_operator.savepoint.objects import build_savepoint

_LOST = (SavepointState.FAILED.value, SavepointState.DAMAGED.value)


def add_savepoint(
    remediation: Remediation, facts: PipelineFacts, record: RemediationStatus
) -> RemediationStatus:
    """Return a remediation that was just decided on, with the savepoint that is to be taken before it, where one is."""
    is_kept = facts.keeps_savepoints or remediation.savepoint.when is SavepointWhen.ALWAYS
    if remediation.savepoint.when is SavepointWhen.NEVER or not is_kept or _has_one(facts, record):
        return record
    return record.replace(savepoint=f"{facts.name}-lag-{record.at:%Y%m%d%H%M%S}", saved=Saved.TAKING)


def _has_one(facts: PipelineFacts, record: RemediationStatus) -> bool:
    """Return whether there is one anyway: a further restart finds the state of the first, and a change may be saved by its mode."""
    if record.kind is RemediationKind.RESTART_STALLED:
        return record.count > 1
    return facts.saves_changes


def follow_savepoint(
    record: RemediationStatus,
    settings: SavepointBefore,
    found: SavepointFacts | None,
    failures: Sequence[Failure],
    now: datetime,
) -> RemediationStatus:
    """Return a remediation that waits for its savepoint, with the result: it exists, or the remediation continues without it."""
    if found is not None and found.taken and found.pipeline == record.target:
        return record.replace(saved=Saved.TAKEN)
    why = _explain_loss(record, found, failures)
    if why is None and (now - record.at).total_seconds() < parse_duration(settings.within):
        return record
    if why is None:
        state = "it was not made" if found is None else found.message
        why = f"it was not taken within {settings.within} ({state})"
    return record.replace(saved=Saved.WITHOUT, message=f"without savepoint {record.savepoint}: {why}")


def _explain_loss(
    record: RemediationStatus, found: SavepointFacts | None, failures: Sequence[Failure]
) -> str | None:
    """Explain why there will be no savepoint; None while there may be one."""
    if found is None:
        created = ((each.action, each.error) for each in failures if isinstance(each.action, CreateObject))
        refusals = (
            error for action, error in created if action.manifest["metadata"]["name"] == record.savepoint
        )
        return next((error.message for error in refusals if not error.retryable), None)
    if found.pipeline != record.target:
        return "there is one of another pipeline by that name"
    if found.deleting:
        return "it was deleted"
    return found.message if found.state in _LOST else None


def build_savepoint_action(record: RemediationStatus, facts: PipelineFacts) -> CreateObject:
    """Return what has the savepoint taken; doing it again changes nothing."""
    if record.savepoint is None:
        raise AssertionError("the name is recorded before the Savepoint is made")
    cause = Cause.BEFORE_REMEDIATION
    return CreateObject(build_savepoint(facts.namespace, facts.name, record.savepoint, cause))


def withdraw(record: RemediationStatus, why: str) -> RemediationStatus:
    """Return a remediation that waited for its savepoint, and is not wanted any more."""
    return record.replace(result=RemediationResult.WITHDRAWN, message=why)
