"""The requests of `kappa reprocess` to the API server: the same changes that kubectl would make."""

from datetime import UTC, datetime
from typing import Any

from kappa_crds import API_VERSION
from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.kinds import find_kind
from kappa_crds.reprocessing import ENDS, ReprocessingPhase, ReprocessingRequest, RequestAction
from kappa_crds.resource import Resource
from kappa_operator.cli.errors import CommandError
from kappa_operator.cli.savepoint_requests import refer
from kappa_operator.cli.wait import Outcome
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import Key
from kappa_operator.reprocessing.objects import ReprocessingResource
from kappa_operator.reprocessing.requests import FITS

_REACHED: dict[RequestAction, tuple[ReprocessingPhase, ...]] = {
    RequestAction.COMPARE: (ReprocessingPhase.READY_TO_CUT,),
    RequestAction.CUT: (ReprocessingPhase.SOAKING, ReprocessingPhase.DONE),
    RequestAction.FINISH: (ReprocessingPhase.DONE,),
    RequestAction.ROLLBACK: (ReprocessingPhase.ROLLED_BACK,),
    RequestAction.ABORT: (ReprocessingPhase.ABORTED,),
}
"""The phases in which each request has had its effect."""


async def find_reprocessing(api: ApiCluster, namespace: str, name: str) -> ReprocessingResource:
    """Return the Reprocessing of a name, or the newest one of the Pipeline of that name; CommandError without one."""
    bodies = await api.list_objects(API_VERSION, "Reprocessing", namespace)
    found: list[ReprocessingResource] = [find_kind("Reprocessing").parse(body) for body in bodies]
    named = [each for each in found if name in (each.metadata.name, each.spec.pipeline_ref)]
    if not named:
        known = ", ".join(sorted(each.metadata.name for each in found)) or "none"
        raise CommandError(
            f'neither a Reprocessing "{name}" nor one of a Pipeline "{name}" in namespace "{namespace}"; found there: {known}'
        )
    return max(named, key=lambda each: (each.metadata.name == name, str(each.metadata.creation_timestamp)))


async def request_action(api: ApiCluster, namespace: str, name: str, action: RequestAction) -> Key:
    """Request an action; return the Reprocessing. CommandError where it does not fit the phase."""
    found = await find_reprocessing(api, namespace, name)
    phase = found.status.phase
    if phase not in FITS[action]:
        fitting = " or ".join(FITS[action])
        raise CommandError(
            f"{action} has no effect on Reprocessing {found.metadata.name}, whose phase is {phase}; it fits in {fitting}"
        )
    key = Key("Reprocessing", namespace, found.metadata.name)
    request = ReprocessingRequest(action=action, id=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}")
    await api.merge(refer(key), {"spec": {"request": request.to_manifest()}})
    return key


def judge_action(action: RequestAction) -> Any:
    """Return what judges whether a request has had its effect."""

    def judge(resource: Resource[Any, Any]) -> Outcome:
        status = resource.status
        message = describe_status(resource)
        is_pending = resource.spec.request is not None and resource.spec.request != status.request
        done = not is_pending and status.phase in _REACHED[action]
        return Outcome(message, done=done, failed=not done and not is_pending and status.phase in ENDS)

    return judge


def describe_status(resource: Resource[Any, Any]) -> str:
    """Return the phase and its message in one line."""
    ready = find_condition(resource.status.conditions, ConditionType.READY)
    message = "not reconciled yet" if ready is None else ready.message
    return f"{resource.status.phase}: {message}"
