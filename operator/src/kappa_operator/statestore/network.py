"""What pods connect to for a store, and the NetworkPolicy of the pods that check a store or work on savepoints."""

from collections.abc import Iterator, Mapping
from typing import Any

from kappa_crds.resource import Resource
from kappa_crds.stores import StoreAccess
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.network import Destination, Network, admit_destinations, admit_dns, build_policy
from kappa_operator.statestore.storage import Storage

_AMAZON = "s3.amazonaws.com"
_DATANODE_PORTS = (9864, 9865, 9866, 9867)
"""WebHDFS, the same with TLS, data transfer and IPC of a datanode. Source: dfs.datanode.*address in hdfs-default.xml."""


def find_store(location: str, access: StoreAccess) -> Iterator[Destination]:
    """Yield what a pod connects to for a location in a store; nothing for a PVC, which its node mounts.

    The namenode refers to datanodes by names of their own, beside it or outside, with the ports that are usual.
    """
    if access.bucket is not None:
        yield Destination.parse(access.bucket.endpoint or f"https://{_AMAZON}")
    if access.hdfs is not None:
        web, namenode = Destination.parse(access.hdfs.web), Destination.parse(location)
        yield from (web, namenode)
        yield from (Destination(namenode.host, port) for port in _DATANODE_PORTS)


def build_worker_policy(
    owner: Resource[Any, Any],
    name: str,
    selector: Mapping[str, str],
    stores: tuple[Storage, ...],
    network: Network,
) -> Manifest:
    """Return the policy of pods that reach stores and nothing else, and that nothing connects to."""
    destinations = (
        each
        for storage in stores
        for each in find_store(storage.root, StoreAccess(bucket=storage.bucket, hdfs=storage.hdfs))
    )
    reached = admit_destinations(network, owner.metadata.namespace, destinations)
    egress = [admit_dns(network), *reached, *network.egress] if reached else list(network.egress)
    return build_policy(owner, name, selector, ingress=network.ingress, egress=egress)
