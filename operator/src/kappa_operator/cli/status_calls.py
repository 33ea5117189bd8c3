"""Reads all resources and whether an operator acts; what may not be read is said to be so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from kappa_operator.cli.health import Health, assess, sort_health
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import ApiUnavailable, KubernetesError

LEASE = "kappa-operator"


class Reading(Protocol):
    """The part of a cluster that is read."""

    async def get(self, ref: ObjectRef) -> Body | None:
        """Return the object, or None where there is none."""

    async def list_objects(self, api_version: str, kind: str, namespace: str | None = None) -> list[Body]:
        """Return the objects of a kind."""


@dataclass(frozen=True)
class Operator:
    """The replica that acts, and when it last said so; `why` it is not known."""

    holder: str | None = None
    renewed: datetime | None = None
    why: str | None = None


@dataclass(frozen=True)
class Overview:
    """All that there is; `unreadable` are kinds that may not be listed, and why."""

    resources: tuple[Health, ...]
    operator: Operator
    unreadable: Mapping[str, str] = field(default_factory=dict)


async def read_overview(cluster: Reading, namespace: str | None, operator_namespace: str) -> Overview:
    """Return how all resources are; raise ApiUnavailable where nobody answers."""
    found: list[Health] = []
    unreadable: dict[str, str] = {}
    for kind in KINDS:
        try:
            found += map(assess, await cluster.list_objects(API_VERSION, kind.name, namespace))
        except ApiUnavailable:
            raise
        except KubernetesError as error:
            unreadable[kind.name] = error.message
    operator = await _read_operator(cluster, operator_namespace)
    return Overview(tuple(sort_health(found)), operator, unreadable)


async def _read_operator(cluster: Reading, namespace: str) -> Operator:
    try:
        lease = await cluster.get(ObjectRef("coordination.k8s.io/v1", "Lease", namespace, LEASE))
    except KubernetesError as error:
        return Operator(why=error.message)
    if lease is None:
        return Operator(
            why=f"no operator has ever acted in namespace {namespace}; name another one with --operator-namespace"
        )
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime")
    return Operator(spec.get("holderIdentity") or None, datetime.fromisoformat(renewed) if renewed else None)
