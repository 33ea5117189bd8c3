"""Whether the operator has permissions in a namespace, and what it does with resources where it has none.

The chart grants the operator cluster-wide only what concerns its own kinds. Secrets, pods and other objects need a RoleBinding
in each namespace. In a namespace without one a resource only reports how to get it.

The deletion of a namespace removes that RoleBinding at any moment, also before the operator has handled the resources. Their
finalizers would then hold the namespace without end, so they are released after one attempt.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import structlog

from kappa_crds import API_VERSION
from kappa_crds.resource import Resource
from kappa_operator.engine.actions import RemoveFinalizer
from kappa_operator.engine.apply import apply_actions
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.disabled import decide_disabled
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Plan
from kappa_operator.engine.recent import MINUTE, SHORT, View
from kappa_operator.errors import KappaError

log = structlog.get_logger(__name__)


async def is_enabled(context: OperatorContext, namespace: str) -> bool:
    """Return whether the operator may act in the namespace, as it was at most a minute ago; the pods there are watched from then on.

    A refusal is remembered for seconds, so that a new RoleBinding takes effect soon, and many resources need one request.
    """
    if not context.settings.namespace_role:
        return True
    view, name = View(context.reads.reads), _name(namespace)
    review = partial(context.cluster.may, "get", "secrets", namespace)
    enabled = await view.read(name, MINUTE, review) or await view.read(name, SHORT, review)
    await context.watch_pods(namespace, watched=enabled)
    return enabled


async def leave_namespace(context: OperatorContext, namespace: str) -> None:
    """Stop to watch pods where the last resource of the namespace is gone."""
    if not context.cache.has_namespace(namespace):
        await context.watch_pods(namespace, watched=False)


def forget_enabled(context: OperatorContext, namespace: str) -> None:
    """Check the permissions again at the next reconcile: a request was refused."""
    context.reads.drop(_name(namespace))


def _name(namespace: str) -> tuple[str, str]:
    return "permissions", namespace


async def decide_without_permission(
    context: OperatorContext,
    key: Key,
    finalizer: str | None,
    attempt: Callable[[], Awaitable[object]],
) -> tuple[Resource[Any, Any], Plan] | None:
    """Return the resource and the report of what is missing; None where it is gone, or released with its namespace.

    `attempt` reconciles it as in any other namespace: what needs no permission there, such as a topic, is still deleted.
    """
    resource: Resource[Any, Any] | None = context.cache.read(key)
    if resource is None:
        return None
    if finalizer in resource.metadata.finalizers and await _is_terminating(context, resource):
        with suppress(KappaError):
            await attempt()
        await _release(context, resource, finalizer)
        return None
    return resource, decide_disabled(resource, context.settings, context.now())


async def _is_terminating(context: OperatorContext, resource: Resource[Any, Any]) -> bool:
    if resource.metadata.deletion_timestamp is None:
        return False
    namespace = await context.cluster.get(ObjectRef("v1", "Namespace", "", resource.metadata.namespace))
    return namespace is None or "deletionTimestamp" in namespace["metadata"]


async def _release(context: OperatorContext, resource: Resource[Any, Any], finalizer: str | None) -> None:
    key = Key.of(resource)
    body = await context.cluster.get(ObjectRef(API_VERSION, *key))
    if body is None or finalizer is None or finalizer not in body["metadata"].get("finalizers", ()):
        return
    log.warning("released without clean-up, as its namespace is deleted", resource=str(key))
    await apply_actions(context, resource, (RemoveFinalizer(finalizer),))
