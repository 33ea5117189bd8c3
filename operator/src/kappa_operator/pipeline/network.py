"""The NetworkPolicies of a pipeline: one for its drivers, and one for its executors where it has some.

They are applied with what a driver needs, before its pod is created. While a change is under way they admit what both revisions need.
"""

from collections.abc import Iterable, Iterator, Sequence, Set

from kappa_crds.revision import BLOCK_MANAGER_PORT, CONTROL_PORT, CONTROL_TLS_PORT, DRIVER_PORT, Revision
from kappa_crds.source import find_registries
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.network import (
    Destination,
    Network,
    admit_api,
    admit_destinations,
    admit_dns,
    build_policy,
    build_ports,
    select_operator,
    select_pods,
)
from kappa_operator.pipeline.objects import (
    DRIVER_ROLE,
    EXECUTOR_ROLE,
    PIPELINE_LABEL,
    PipelineResource,
    has_executors,
    name_account,
)
from kappa_operator.statestore.network import find_store


def build_policies(
    resource: PipelineResource,
    revisions: Sequence[Revision],
    network: Network | None,
    advertised: Iterable[str] = (),
) -> tuple[Manifest, ...]:
    """Return the policies for pods of these revisions of the pipeline; none where the installation disables them.

    `advertised` are the addresses of brokers besides those of the revisions.
    """
    if network is None:
        return ()
    data = {*_find_data(revisions), *map(Destination.parse, advertised)}
    driver = _build_driver_policy(resource, revisions, network, data)
    if not any(has_executors(each.spec) for each in revisions):
        return (driver,)
    return driver, _build_executor_policy(resource, network, data)


def _build_driver_policy(
    resource: PipelineResource, revisions: Sequence[Revision], network: Network, data: Set[Destination]
) -> Manifest:
    name, namespace = resource.metadata.name, resource.metadata.namespace
    peers = [select_operator(network), *network.prometheus]
    ingress, egress = (
        [{"from": peers, "ports": build_ports(CONTROL_PORT, CONTROL_TLS_PORT)}],
        [admit_dns(network)],
    )
    if any(has_executors(each.spec) for each in revisions):
        executors = [select_pods({PIPELINE_LABEL: name, **EXECUTOR_ROLE})]
        ingress.append({"from": executors, "ports": build_ports(DRIVER_PORT, BLOCK_MANAGER_PORT)})
        egress += [{"to": executors, "ports": build_ports(BLOCK_MANAGER_PORT)}, admit_api(network)]
    destinations = {*data, *_find_registries(revisions)}
    return build_policy(
        resource,
        name_account(name),
        {PIPELINE_LABEL: name, **DRIVER_ROLE},
        ingress=[*ingress, *network.ingress],
        egress=[*egress, *admit_destinations(network, namespace, destinations), *network.egress],
    )


def _build_executor_policy(resource: PipelineResource, network: Network, data: Set[Destination]) -> Manifest:
    name, namespace = resource.metadata.name, resource.metadata.namespace
    own = {PIPELINE_LABEL: name, **EXECUTOR_ROLE}
    driver, executors = select_pods({PIPELINE_LABEL: name, **DRIVER_ROLE}), select_pods(own)
    egress = [
        admit_dns(network),
        {"to": [driver], "ports": build_ports(DRIVER_PORT, BLOCK_MANAGER_PORT)},
        {"to": [executors], "ports": build_ports(BLOCK_MANAGER_PORT)},
        *admit_destinations(network, namespace, data),
    ]
    return build_policy(
        resource,
        f"{name}-executor",
        own,
        ingress=[
            {"from": [driver, executors], "ports": build_ports(BLOCK_MANAGER_PORT)},
            *network.ingress,
        ],
        egress=[*egress, *network.egress],
    )


def _find_data(revisions: Iterable[Revision]) -> Iterator[Destination]:
    """Yield Kafka and the store of each revision."""
    for each in revisions:
        yield from map(Destination.parse, each.kafka.bootstrap_servers)
        yield from find_store(each.checkpoint, each)


def _find_registries(revisions: Iterable[Revision]) -> Iterator[Destination]:
    """Yield the schema registries, which only drivers use."""
    for each in revisions:
        yield from (Destination.parse(registry.url) for _, registry in find_registries(each.spec.sources))
