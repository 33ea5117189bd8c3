"""What a resource reports where the operator has no permissions in its namespace. Pure."""

from datetime import datetime
from typing import Any

from kappa_crds.conditions import ConditionType, find_condition
from kappa_crds.reasons import Reason
from kappa_crds.resource import Resource
from kappa_operator import intervals
from kappa_operator.engine.plan import Plan, stalled, update_status
from kappa_operator.settings import Settings


def decide_disabled(resource: Resource[Any, Any], settings: Settings, now: datetime) -> Plan:
    """Return the plan that reports the command which grants the permissions. All else in the status stays."""
    namespace = resource.metadata.namespace
    message = (
        f'the operator has no permissions in namespace "{namespace}"; an administrator of the namespace grants them with:'
        f" {build_command(settings, namespace)}"
    )
    verdict = stalled(resource.status.state or "Waiting", Reason.NAMESPACE_NOT_ENABLED, message)
    return Plan(status=update_status(resource, verdict, now), requeue_after=intervals.BLOCKED)


def is_disabled(resource: Resource[Any, Any]) -> bool:
    """Return whether the resource was in a namespace without permissions when it was last reconciled."""
    ready = find_condition(resource.status.conditions, ConditionType.READY)
    return ready is not None and ready.reason == Reason.NAMESPACE_NOT_ENABLED


def build_command(settings: Settings, namespace: str) -> str:
    """Return the command that gives the operator its permissions in a namespace."""
    account = f"{settings.namespace}:{settings.service_account}"
    return (
        f"kubectl create rolebinding {settings.service_account} --clusterrole={settings.namespace_role}"
        f" --serviceaccount={account} --namespace={namespace}"
    )
