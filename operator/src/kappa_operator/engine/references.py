"""From the names in a spec to the resources they mean, and back: which resources wait for one.

A resource that is missing, ambiguous or not ready is a ReferenceProblem, whose message names it and what to do.
"""

from typing import Any

from pydantic import ValidationError

from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.keys import Key
from kappa_operator.engine.kinds import Reference
from kappa_operator.errors import ReferenceProblem

_UNNAMED = Reference((), Reason.INVALID_SPEC, Reason.INVALID_SPEC)


def find_referred(cache: ResourceCache, kind: str, namespace: str, name: str | None) -> Key:
    """Return the resource of that name, or the only one of the namespace; raise ReferenceProblem for none or many."""
    if name is not None:
        key = Key(kind, namespace, name)
        if cache.get_version(key) >= 0:
            return key
        raise _report_missing(cache, key)
    present, reference = cache.find(kind, namespace), _get_reference(cache, kind)
    if len(present) == 1:
        return present[0]
    if not present:
        message = f'namespace "{namespace}" has no {kind}; create one'
        raise ReferenceProblem(message, reason=reference.missing)
    names = ", ".join(key.name for key in present)
    message = f'namespace "{namespace}" has several of kind {kind} ({names}); name one in spec.{reference.fields[0]}'
    raise ReferenceProblem(message, reason=reference.ambiguous)


def is_meant(cache: ResourceCache, key: Key, name: str | None) -> bool:
    """Return whether a reference in the namespace of a resource means it: by its name, or as the only one of its kind."""
    try:
        return find_referred(cache, key.kind, key.namespace, name) == key
    except ReferenceProblem:
        return False


def resolve_ready(cache: ResourceCache, kind: str, namespace: str, name: str | None) -> Resource[Any, Any]:
    """Return the ready resource that is meant; raise ReferenceProblem."""
    key = find_referred(cache, kind, namespace, name)
    resource = read_referred(cache, key)
    condition = find_condition(resource.status.conditions, ConditionType.READY)
    if condition is not None and condition.status == "True":
        return resource
    why = "it has not been checked yet" if condition is None else f"{condition.reason}: {condition.message}"
    raise ReferenceProblem(
        f'{kind} "{key.name}" is not ready: {why}',
        reason=_get_reference(cache, kind).not_ready,
        retryable=True,
    )


def read_referred(cache: ResourceCache, key: Key) -> Resource[Any, Any]:
    """Return the resource; raise ReferenceProblem where it is missing or invalid."""
    if cache.is_shortened(key):
        message = f'{key.kind} "{key.name}" is beyond a limit of its namespace; its condition Ready names it'
        raise ReferenceProblem(message, reason=_get_reference(cache, key.kind).not_ready, retryable=True)
    try:
        resource = cache.read(key)
    except ValidationError as error:
        invalid = error.errors(include_input=False, include_url=False)[0]
        message = f"{key.kind} {key.name} is invalid: {'.'.join(map(str, invalid['loc']))}: {invalid['msg']}; correct it"
        reason = _get_reference(cache, key.kind).not_ready
        raise ReferenceProblem(message, reason=reason, retryable=True) from None
    if resource is None:
        raise _report_missing(cache, key, retryable=True)
    return resource


def _report_missing(cache: ResourceCache, key: Key, *, retryable: bool = False) -> ReferenceProblem:
    message = f'{key.kind} "{key.name}" not found in namespace "{key.namespace}"; create it'
    return ReferenceProblem(message, reason=_get_reference(cache, key.kind).missing, retryable=retryable)


def _get_reference(cache: ResourceCache, kind: str) -> Reference:
    return cache.kinds[kind].reference or _UNNAMED


def find_users(cache: ResourceCache, key: Key, kind: str) -> list[Key]:
    """Return the resources of a kind that name this one, or mean it as the only one, sorted by name."""
    return sorted(each for each in cache.find_naming(key) if each.kind == kind)


def find_dependents(cache: ResourceCache, key: Key, *, renewed: bool = False) -> list[Key]:
    """Return the resources to reconcile now that this one changed.

    Those that name it, unless they are ready: a check that found everything as before must not wake ten thousand topics. A spec
    that was `renewed`, or is gone, concerns all of them. And those that wait for it without naming it, or follow it, by its kind's entry.
    """
    naming = {each for each in cache.find_naming(key) if renewed or cache.is_waiting(each)}
    others = {each for each in cache.kinds[key.kind].find_dependents(cache, key) if cache.is_waiting(each)}
    followers = set(cache.kinds[key.kind].find_followers(cache, key))
    found = (naming | others | followers) - {key}
    return sorted(each for each in found if cache.is_deleting(each) or not cache.is_shortened(each))
