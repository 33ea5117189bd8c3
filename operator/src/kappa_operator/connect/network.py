"""The NetworkPolicy of the workers of Kafka Connect."""

from collections.abc import Iterable

from kappa_operator.connect.names import (
    CONNECT_LABEL,
    METRICS_PORT,
    REST_PORT,
    KafkaClusterResource,
    name_workers,
)
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.network import (
    Destination,
    Network,
    admit_destinations,
    admit_dns,
    build_policy,
    build_ports,
    select_operator,
    select_pods,
)


def build_workers_policy(
    resource: KafkaClusterResource, network: Network, databases: Iterable[Destination] = ()
) -> Manifest:
    """Return the policy: the operator and other workers reach the REST API, Prometheus the metrics; workers reach Kafka and databases."""
    selector = {CONNECT_LABEL: resource.metadata.name}
    workers = select_pods(selector)
    brokers = (*resource.spec.bootstrap_servers, *resource.status.advertised)
    destinations = {*map(Destination.parse, brokers), *databases}
    return build_policy(
        resource,
        name_workers(resource),
        selector,
        ingress=[
            {"from": [select_operator(network), workers], "ports": build_ports(REST_PORT)},
            *(
                [{"from": list(network.prometheus), "ports": build_ports(METRICS_PORT)}]
                if network.prometheus
                else []
            ),
            *network.ingress,
        ],
        egress=[
            admit_dns(network),
            {"to": [workers], "ports": build_ports(REST_PORT)},
            *admit_destinations(network, resource.metadata.namespace, destinations),
            *network.egress,
        ],
    )
