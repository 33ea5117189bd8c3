"""Waits for the result of a request and shows its progress as it changes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kappa_crds.conditions import EXPORTED, VERIFIED, Condition, find_condition
from kappa_crds.quantities import format_duration, format_size
from kappa_crds.resource import Resource
from kappa_crds.savepoint import ExportState
from kappa_crds.savepoint_work import WorkState
from kappa_operator.cli.errors import CommandError
from kappa_operator.cli.savepoint_requests import read_resource
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import Key
from kappa_operator.savepoint.export import list_copies

_INTERVAL_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """The progress of a request: a message, and whether it is done or has failed."""

    message: str
    done: bool = False
    failed: bool = False


Judge = Callable[[Resource[Any, Any]], Outcome]


async def wait_for(
    api: ApiCluster,
    key: Key,
    judge: Judge,
    seconds: float,
    show: Callable[[str], object],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Return the final message of a request; CommandError where it failed or took too long."""
    deadline, shown = now() + seconds, ""
    while True:
        outcome = judge(await read_resource(api, key))
        if outcome.failed:
            raise CommandError(outcome.message)
        if outcome.done:
            return outcome.message
        if outcome.message != shown:
            shown = outcome.message
            show(shown)
        if now() > deadline:
            raise CommandError(
                f"not done within {format_duration(seconds)}, it continues in the cluster; last status: {shown}"
            )
        await sleep(_INTERVAL_SECONDS)


def judge_taken(resource: Resource[Any, Any]) -> Outcome:
    """Return the progress of taking a savepoint."""
    return _judge(resource, find_condition(resource.status.conditions, "Ready"))


def judge_verified(resource: Resource[Any, Any]) -> Outcome:
    """Return the progress of taking and verifying a savepoint."""
    taken = judge_taken(resource)
    if resource.status.taken is None:
        return taken
    condition, wanted = find_condition(resource.status.conditions, VERIFIED), resource.spec.verify
    message = condition.message if condition else "waiting for the verification"
    if wanted is None or resource.status.verified != wanted or condition is None:
        return Outcome(message)
    is_good = condition.status == "True"
    return Outcome(message, done=is_good, failed=not is_good)


def judge_exported(store: str) -> Judge:
    """Return what reports the progress of a copy to a StateStore."""

    def judge(resource: Resource[Any, Any]) -> Outcome:
        copies, condition = list_copies(resource), find_condition(resource.status.conditions, EXPORTED)
        copy = next((each for each in copies if each.store_ref == store), None)
        if copy is None:
            return Outcome(f"the export to StateStore {store} was removed from the spec", failed=True)
        if copy.state is ExportState.EXPORTED:
            copied = format_size(copy.copied_bytes or 0)
            return Outcome(f"{copy.location} in StateStore {store}; {copied} copied", done=True)
        message = copy.message or (condition.message if condition else "waiting for the copy")
        return Outcome(message, failed=copy.state is ExportState.ABANDONED)

    return judge


def judge_restored(resource: Resource[Any, Any]) -> Outcome:
    """Return the progress of a restore from the savepoint in the spec."""
    condition = find_condition(resource.status.conditions, "Ready")
    outcome = _judge(resource, condition)
    if resource.status.restored != resource.spec.restore and not outcome.failed:
        return Outcome(condition.message if condition else "waiting for the operator to start")
    return outcome


def judge_collected(resource: Resource[Any, Any]) -> Outcome:
    """Return the progress of the last requested collection."""
    wanted, found = resource.spec.collection, resource.status.collection
    if found is None or wanted is None or found.request != wanted.request:
        ready = find_condition(resource.status.conditions, "Ready")
        waits = ready is not None and ready.status != "True"
        return Outcome(ready.message if ready is not None and waits else "waiting for the operator to start")
    return Outcome(found.message, done=found.state is not WorkState.RUNNING)


def _judge(resource: Resource[Any, Any], ready: Condition | None) -> Outcome:
    if ready is None or (resource.status.observed_generation or 0) < resource.metadata.generation:
        return Outcome("waiting for the operator")
    stalled = find_condition(resource.status.conditions, "Stalled")
    failed = stalled is not None and stalled.status == "True"
    return Outcome(ready.message, done=ready.status == "True", failed=failed)
