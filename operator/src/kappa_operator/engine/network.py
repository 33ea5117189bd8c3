"""NetworkPolicies for the operator's pods: which connections they may have, as the chart's values declare it.

A policy knows no host names, so a destination becomes the widest set of addresses that its name can mean, and the ports of that
server: an address is itself, the name of a Service is the pods of its namespace, and any other name is whatever is outside.
"""

import ipaddress
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self
from urllib.parse import urlsplit

from kappa_crds.resource import Resource
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.restricted import build_owner

API_VERSION = "networking.k8s.io/v1"
KIND = "NetworkPolicy"
_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_OPERATOR = {"app.kubernetes.io/name": "kappa-operator"}
_SERVICE_SUFFIXES = (".svc", ".svc.cluster.local")
_SCHEMES = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Network:
    """The values of the chart on NetworkPolicies.

    `namespace` is that of the operator. `prometheus` are the peers that read metrics. `api` and `dns` are ports. `inside` are the
    addresses that are not outside of the cluster: those of pods where they are known, and of the metadata service of a cloud.
    `ingress` and `egress` are further rules for all pods of pipelines and stores.
    """

    namespace: str
    prometheus: tuple[Manifest, ...] = ()
    api: tuple[int, ...] = (443, 6443)
    dns: tuple[int, ...] = (53,)
    inside: tuple[str, ...] = ("169.254.0.0/16",)
    ingress: tuple[Manifest, ...] = ()
    egress: tuple[Manifest, ...] = ()

    @classmethod
    def parse(cls, text: str, namespace: str) -> Self | None:
        """Return the values from the operator's environment, None where no policies are wanted; raise ValueError naming what is wrong."""
        if not text:
            return None
        try:
            fields = {name: tuple(value) for name, value in json.loads(text).items()}
            return cls(namespace=namespace, **fields)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(f"KAPPA_NETWORK_POLICIES={text!r} cannot be read: {error}") from None


@lru_cache(maxsize=4)
def read_network(text: str, namespace: str) -> Network | None:
    """Return the same as `Network.parse`, parsed once."""
    return Network.parse(text, namespace)


@dataclass(frozen=True, slots=True, order=True)
class Destination:
    """A server that pods connect to."""

    host: str
    port: int

    @classmethod
    def parse(cls, address: str) -> Self:
        """Return the server of host:port, or of a URL."""
        url = urlsplit(address if "://" in address else f"//{address}")
        return cls(url.hostname or "", url.port or _SCHEMES.get(url.scheme, 0))


def build_policy(
    owner: Resource[Any, Any],
    name: str,
    selector: Mapping[str, str],
    *,
    ingress: Sequence[Manifest],
    egress: Sequence[Manifest],
) -> Manifest:
    """Return the policy of pods with these labels. It admits these connections and no others, in both directions."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {"app.kubernetes.io/managed-by": "kappa-operator", **selector},
            "ownerReferences": [build_owner(owner)],
        },
        "spec": {
            "podSelector": {"matchLabels": dict(selector)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": list(ingress),
            "egress": list(egress),
        },
    }


def build_ports(*ports: int, protocols: Iterable[str] = ("TCP",)) -> list[Manifest]:
    """Return ports of a rule."""
    return [{"protocol": protocol, "port": port} for port in ports for protocol in protocols]


def select_pods(labels: Mapping[str, str]) -> Manifest:
    """Return the pods with these labels in the namespace of the policy, as a peer."""
    return {"podSelector": {"matchLabels": dict(labels)}}


def select_operator(network: Network) -> Manifest:
    """Return the pods of the operator, as a peer."""
    return {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: network.namespace}},
        "podSelector": {"matchLabels": _OPERATOR},
    }


def admit_dns(network: Network) -> Manifest:
    """Return the rule for name resolution. A resolver may be a pod, a node or a link-local address, so any address is admitted."""
    return {"ports": build_ports(*network.dns, protocols=("UDP", "TCP"))}


def admit_api(network: Network) -> Manifest:
    """Return the rule for the API server, which is no pod and often has an address of a node."""
    return {"ports": build_ports(*network.api)}


def admit_destinations(
    network: Network, namespace: str, destinations: Iterable[Destination]
) -> list[Manifest]:
    """Return the rules for servers that pods of the namespace connect to, the same for the same servers in any order."""
    rules: list[Manifest] = []
    outside: set[int] = set()
    namespaces: set[str] = set()
    for each in sorted(set(destinations)):
        block = _find_block(each.host)
        if block is not None:
            rules.append({"to": [{"ipBlock": {"cidr": block}}], "ports": build_ports(each.port)})
            continue
        namespaces.update(_find_namespaces(each.host, namespace))
        outside.add(each.port)
    for name in sorted(namespaces):
        peer = {"namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: name}}}
        # The ports of pods: those of their Service may be others.
        rules.append({"to": [peer], "ports": [{"protocol": "TCP"}]})
    if outside:
        rules.append({"to": list(_build_outside(network)), "ports": build_ports(*sorted(outside))})
    return rules


def _find_block(host: str) -> str | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return f"{address}/{address.max_prefixlen}"


def _find_namespaces(host: str, own: str) -> Iterator[str]:
    """Yield the namespaces in which a name may be a Service: `name`, `name.namespace`, or one that ends with svc.

    The name of a pod of a headless Service has one part more. A name of two parts may as well be outside.
    """
    service = next((host.removesuffix(each) for each in _SERVICE_SUFFIXES if host.endswith(each)), None)
    parts = (service or host).split(".")
    if len(parts) == 1:
        yield own
    elif service is not None or len(parts) == 2:
        yield parts[-1]


def _build_outside(network: Network) -> Iterator[Manifest]:
    for everything in ("0.0.0.0/0", "::/0"):
        version = ipaddress.ip_network(everything).version
        excepted = [each for each in network.inside if ipaddress.ip_network(each).version == version]
        yield {"ipBlock": {"cidr": everything, **({"except": excepted} if excepted else {})}}
