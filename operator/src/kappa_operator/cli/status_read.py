"""Reads the health of all resources and the leader of the operator; names what it has no permission to read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from kappa_operator.cli.health import Health, assess, sort_health
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import ApiUnavailable, KubernetesError

LEASE = "kappa-operator"


@dataclass(frozen=True)
class Operator:
    """The leader, and when it last renewed its lease; `why` is the cause if that is not known."""

    holder: str | None = None
    renewed: datetime | None = None
    why: str | None = None


@dataclass(frozen=True)
class Overview:
    """The health of all resources; `unreadable` are the kinds that cannot be listed, and why."""

    resources: tuple[Health, ...]
    operator: Operator
    unreadable: Mapping[str, str] = field(default_factory=dict)


async def read_overview(api: ApiCluster, namespace: str | None, operator_namespace: str) -> Overview:
    """Return the health of all resources; raise ApiUnavailable where the API server does not respond."""
    found: list[Health] = []
    unreadable: dict[str, str] = {}
    for kind in KINDS:
        try:
            found += map(assess, await api.list_objects(API_VERSION, kind.name, namespace))
        except ApiUnavailable:
            raise
        except KubernetesError as error:
            unreadable[kind.name] = error.message
    operator = await _read_operator(api, operator_namespace)
    return Overview(tuple(sort_health(found)), operator, unreadable)


async def _read_operator(api: ApiCluster, namespace: str) -> Operator:
    try:
        lease = await api.get(ObjectRef("coordination.k8s.io/v1", "Lease", namespace, LEASE))
    except KubernetesError as error:
        return Operator(why=error.message)
    if lease is None:
        return Operator(
            why=f'no lease of an operator in namespace "{namespace}"; name its namespace with --operator-namespace'
        )
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime")
    return Operator(spec.get("holderIdentity") or None, datetime.fromisoformat(renewed) if renewed else None)
