"""Waiting for what was asked for: what is under way is shown as it changes, and how it ended."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kappa_crds.conditions import EXPORTED, VERIFIED, Condition, find_condition
from kappa_crds.quantities import format_duration, format_size
from kappa_crds.resource import Resource
from kappa_crds.savepoint_transfer import ExportState
from kappa_crds.savepoint_work import WorkState
from kappa_operator.cli.savepoint_calls import Desk, read_resource
from kappa_operator.engine.keys import Key
from kappa_operator.savepoint.export import list_copies

_EVERY_SECONDS = 1.0


class WaitProblem(Exception):
    """What was waited for failed, or did not come in time."""


@dataclass(frozen=True)
class Outcome:
    """How far something is: a message, and whether that is its end, a good one or not."""

    message: str
    done: bool = False
    failed: bool = False


Judge = Callable[[Resource[Any, Any]], Outcome]


async def await_end(
    desk: Desk,
    key: Key,
    judge: Judge,
    seconds: float,
    show: Callable[[str], object],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    now: Callable[[], float] = time.monotonic,
) -> str:
    """Return the last word on what was asked for; WaitProblem where it failed or did not end in time."""
    deadline, told = now() + seconds, ""
    while True:
        outcome = judge(await read_resource(desk, key))
        if outcome.failed:
            raise WaitProblem(outcome.message)
        if outcome.done:
            return outcome.message
        if outcome.message != told:
            told = outcome.message
            show(told)
        if now() > deadline:
            raise WaitProblem(f"not within {format_duration(seconds)}; it goes on by itself, so far: {told}")
        await sleep(_EVERY_SECONDS)


def judge_taken(resource: Resource[Any, Any]) -> Outcome:
    """Tell whether a savepoint is there."""
    return _judge(resource, _find(resource, "Ready"))


def judge_verified(resource: Resource[Any, Any]) -> Outcome:
    """Tell whether a savepoint is there and was read back."""
    taken = judge_taken(resource)
    if resource.status.taken is None:
        return taken
    condition, wanted = _find(resource, VERIFIED), resource.spec.verify
    said = condition.message if condition else "it is about to be read back"
    if wanted is None or resource.status.verified != wanted or condition is None:
        return Outcome(said)
    is_good = condition.status == "True"
    return Outcome(said, done=is_good, failed=not is_good)


def judge_exported(store: str) -> Judge:
    """Return what tells whether the copy of a savepoint in a StateStore is there."""

    def judge(resource: Resource[Any, Any]) -> Outcome:
        copies, condition = list_copies(resource), _find(resource, EXPORTED)
        copy = next((each for each in copies if each.store_ref == store), None)
        if copy is None:
            return Outcome(f"it is not to be exported to StateStore {store} any more", failed=True)
        if copy.state is ExportState.EXPORTED:
            copied = format_size(copy.copied_bytes or 0)
            return Outcome(f"{copy.location} of StateStore {store}; {copied} copied", done=True)
        said = copy.message or (condition.message if condition else "it is about to be copied")
        return Outcome(said, failed=copy.state is ExportState.ABANDONED)

    return judge


def judge_restored(resource: Resource[Any, Any]) -> Outcome:
    """Tell whether a pipeline runs from the savepoint that its spec names."""
    condition = _find(resource, "Ready")
    outcome = _judge(resource, condition)
    if resource.status.restored != resource.spec.restore and not outcome.failed:
        return Outcome(condition.message if condition else "it is about to begin")
    return outcome


def judge_collected(resource: Resource[Any, Any]) -> Outcome:
    """Tell whether a store was looked through as its spec asks last."""
    wanted, found = resource.spec.collection, resource.status.collection
    if found is None or wanted is None or found.request != wanted.request:
        ready = _find(resource, "Ready")
        waits = ready is not None and ready.status != "True"
        return Outcome(ready.message if ready is not None and waits else "it is about to begin")
    return Outcome(found.message, done=found.state is not WorkState.RUNNING)


def _find(resource: Resource[Any, Any], kind: str) -> Condition | None:
    found: Condition | None = find_condition(resource.status.conditions, kind)
    return found


def _judge(resource: Resource[Any, Any], ready: Condition | None) -> Outcome:
    if ready is None or (resource.status.observed_generation or 0) < resource.metadata.generation:
        return Outcome("the operator has not looked at it yet")
    stalled = _find(resource, "Stalled")
    failed = stalled is not None and stalled.status == "True"
    return Outcome(ready.message, done=ready.status == "True", failed=failed)
