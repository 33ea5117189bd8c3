"""One reconcile: gather, decide, act, and report what was observed.

Every kind plugs in its entry of the table of kinds: `observe`, which only reads, and steps, which are pure.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import structlog
from pydantic import ValidationError

from kappa_crds import API_VERSION
from kappa_crds.conversion import build_spec_patch
from kappa_crds.resource import Resource
from kappa_operator.engine.apply import apply_actions, apply_status
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.enabled import (
    decide_without_permission,
    forget_enabled,
    is_enabled,
    leave_namespace,
)
from kappa_operator.engine.invalid import decide_invalid
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.kinds import KindEntry, ObservedT
from kappa_operator.engine.limited import decide_limited
from kappa_operator.engine.limits import Excess
from kappa_operator.engine.plan import Failure, Plan
from kappa_operator.engine.recent import View
from kappa_operator.errors import KappaError, NotFound, Refused
from kappa_operator.fair import FairSlots

ROUNDS = 4
_THREADS = 4
_DECIDERS, _LONG = ThreadPoolExecutor(_THREADS, thread_name_prefix="decide"), FairSlots(_THREADS)
"""Threads for long decisions, which namespaces share. Those of the event loop also look up names in DNS, where tenants may be slow."""

log = structlog.get_logger(__name__)


class Outcome(NamedTuple):
    """The result of a reconcile: seconds until the next one (None: no need), and whether the status changed."""

    requeue_after: float | None = None
    changed: bool = False


async def reconcile(context: OperatorContext, key: Key) -> Outcome:
    """Bring the resource one step further; raise KappaError where that failed and should be retried."""
    entry = context.kinds[key.kind]
    if context.cache.get_version(key) < 0:
        entry.on_deleted(context, key)
        await leave_namespace(context, key.namespace)
        return Outcome()
    excess = await find_excess(context, key)
    if excess is not None:
        entry.on_deleted(context, key)
        limited = decide_limited(key.kind, context.cache.get_body(key) or {}, excess, context.now())
        return Outcome(changed=await report(context, limited.resource, limited.plan))
    if context.cache.is_outdated(key):
        await write_converted(context, key)
    try:
        if not await is_enabled(context, key.namespace):
            return await _report_not_enabled(context, entry, key)
        return await _reconcile(context, entry, key)
    except Refused:
        forget_enabled(context, key.namespace)
        raise
    except ValidationError:
        invalid = decide_invalid(entry.kind, context.cache.get_body(key) or {}, context.now())
        if invalid is None:
            raise
        return Outcome(changed=await report(context, invalid.resource, invalid.plan))


async def find_excess(context: OperatorContext, key: Key) -> Excess | None:
    """Return the limit that the resource is beyond. One that is deleted needs none of it, and one with room again is read whole."""
    cache = context.cache
    excess = None if cache.is_deleting(key) else cache.find_excess(key)
    if excess is None and cache.is_shortened(key):
        body = await context.cluster.get(ObjectRef(API_VERSION, *key))
        if body is None:
            raise NotFound(f"{key} is gone")
        cache.restore(body)
        excess = None if cache.is_deleting(key) else cache.find_excess(key)
    return excess


async def write_converted(context: OperatorContext, key: Key) -> None:
    """Write a stored object back with the present names. A failure is only logged: objects are converted whenever they are read."""
    body = context.cache.get_body(key) or {}
    context.check_leading()
    try:
        written = await context.cluster.merge(
            ObjectRef(API_VERSION, key.kind, key.namespace, key.name),
            build_spec_patch(body),
            "kappa-conversion",
        )
    except KappaError as error:
        log.warning("not converted", resource=str(key), error=error.message)
        return
    context.note(written)
    log.info("converted", resource=str(key))


async def _report_not_enabled(context: OperatorContext, entry: KindEntry[Any], key: Key) -> Outcome:
    attempt = partial(_reconcile, context, entry, key)
    found = await decide_without_permission(context, key, entry.finalizer, attempt)
    if found is None:
        return Outcome()
    resource, plan = found
    return Outcome(plan.requeue_after, await report(context, resource, plan))


async def _reconcile(context: OperatorContext, entry: KindEntry[Any], key: Key) -> Outcome:
    failures: tuple[Failure, ...] = ()
    for _ in range(ROUNDS):
        found = await _observe_and_decide(context, entry, key, failures)
        if found is None:
            return Outcome()
        observed, plan = found
        failure = await apply_actions(context, observed.resource, plan.actions)
        if plan.actions:
            context.reads.drop(key)
        if failure is not None:
            failures = (*failures, failure)
        elif not plan.requeue:
            changed = await report(context, observed.resource, plan)
            return Outcome(plan.requeue_after, changed)
    if failures:
        raise failures[-1].error
    return Outcome(1.0)


async def _observe_and_decide(
    context: OperatorContext, entry: KindEntry[ObservedT], key: Key, failures: tuple[Failure, ...]
) -> tuple[ObservedT, Plan] | None:
    """Return the plan and what it was decided on. Remembered answers may not lead to actions: then everything is read again."""
    reads = View(context.reads.reads)
    again = reads.renew()
    found = await _observe_once(replace(context, reads=reads), entry, key, failures)
    if found is None or not found[1].actions or not reads.hits:
        return found
    return await _observe_once(replace(context, reads=again), entry, key, failures)


async def _observe_once(
    context: OperatorContext, entry: KindEntry[ObservedT], key: Key, failures: tuple[Failure, ...]
) -> tuple[ObservedT, Plan] | None:
    observed = await entry.observe(context, key, failures)
    return None if observed is None else (observed, await _decide(entry, observed, context.now()))


async def _decide(entry: KindEntry[ObservedT], observed: ObservedT, now: datetime) -> Plan:
    if entry.is_long(observed):
        loop = asyncio.get_running_loop()
        async with _LONG.hold(observed.resource.metadata.namespace):
            return await loop.run_in_executor(_DECIDERS, entry.decide, observed, now)
    return entry.decide(observed, now)


async def report(context: OperatorContext, resource: Resource[Any, Any], plan: Plan) -> bool:
    """Write the plan's status; return whether there was anything to write."""
    return plan.status is not None and await apply_status(context, resource, plan.status)
