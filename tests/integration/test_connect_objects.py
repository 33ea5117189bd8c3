"""The objects of Kafka Connect's workers are valid for a real API server, with every field that it knows and no other."""

import pytest

from integration.bench import Bench
from kappa_crds.kinds import find_kind
from kappa_operator.connect.objects import WorkerOptions, build_objects
from kappa_operator.engine.network import Network

SECURE = {
    "tls": {"caSecretRef": {"name": "ca"}, "clientSecretRef": {"name": "pair"}},
    "sasl": {"credentialsSecretRef": {"name": "login"}},
}


@pytest.mark.parametrize("spec", [{}, SECURE], ids=["plain", "secure"])
async def test_the_api_server_takes_each_object(bench: Bench, spec: dict[str, object]) -> None:
    metadata = {"name": "main", "namespace": bench.namespace, "uid": "9a3c5f0e-0000-4000-8000-000000000000"}
    declared = {"bootstrapServers": ["kafka:9092"], "connect": {"workers": {}}, **spec}
    resource = find_kind("KafkaCluster").parse({"metadata": metadata, "spec": declared})
    options = WorkerOptions("kappa/connect:dev", network=Network("kappa-system"))
    for manifest in build_objects(resource, resource.spec.connect.workers, options):
        stored = await bench.cluster.try_out(manifest)
        assert stored["metadata"]["name"] == manifest["metadata"]["name"]
