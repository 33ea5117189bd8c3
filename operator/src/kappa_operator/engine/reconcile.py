"""One reconcile: gather, decide, act, and say what was seen.

Every kind plugs in two functions: `observe`, which reads the context into a frozen value, and `decide`, which is pure.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from kappa_crds.resource import Resource
from kappa_operator.engine.apply import apply_actions, apply_status
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.invalid import decide_invalid
from kappa_operator.engine.keys import Key
from kappa_operator.engine.plan import Failure, Plan

ROUNDS = 4


class Observed(Protocol):
    """What every observation holds: the resource as it was when the decision was made."""

    @property
    def resource(self) -> Resource[Any, Any]:
        """Return the resource."""


ObservedT = TypeVar("ObservedT", bound=Observed)


@dataclass(frozen=True, slots=True)
class Logic(Generic[ObservedT]):
    """How one kind is observed and decided. `observe` returns None for a resource that is gone.

    A decision that `is_long` is made in a thread, so that health and the election get their turn meanwhile: it is pure.
    """

    observe: Callable[[OperatorContext, Key, tuple[Failure, ...]], Awaitable[ObservedT | None]]
    decide: Callable[[ObservedT, datetime], Plan]
    is_long: Callable[[ObservedT], bool] = lambda _observed: False


class Outcome(NamedTuple):
    """What a reconcile came to: seconds until the next look (None: no need), and whether the status changed."""

    requeue_after: float | None = None
    changed: bool = False


async def reconcile(context: OperatorContext, logics: Mapping[str, Logic[Any]], key: Key) -> Outcome:
    """Bring the resource one step further; raise KappaError where that failed and should be tried again."""
    try:
        return await _reconcile(context, logics[key.kind], key)
    except ValidationError:
        invalid = decide_invalid(key, context.cache.get_body(key) or {}, context.now())
        if invalid is None:
            raise
        return Outcome(changed=await report(context, invalid.resource, invalid.plan))


async def _reconcile(context: OperatorContext, logic: Logic[Any], key: Key) -> Outcome:
    failures: tuple[Failure, ...] = ()
    for _ in range(ROUNDS):
        observed = await logic.observe(context, key, failures)
        if observed is None:
            return Outcome()
        plan = await _decide(logic, observed, context.now())
        failure = await apply_actions(context, observed.resource, plan.actions)
        if failure is not None:
            failures = (*failures, failure)
        elif not plan.requeue:
            changed = await report(context, observed.resource, plan)
            return Outcome(plan.requeue_after, changed)
    if failures:
        raise failures[-1].error
    return Outcome(1.0)


async def _decide(logic: Logic[ObservedT], observed: ObservedT, now: datetime) -> Plan:
    if logic.is_long(observed):
        return await asyncio.to_thread(logic.decide, observed, now)
    return logic.decide(observed, now)


async def report(context: OperatorContext, resource: Resource[Any, Any], plan: Plan) -> bool:
    """Write the plan's status; return whether there was anything to write."""
    return plan.status is not None and await apply_status(context, resource, plan.status)
