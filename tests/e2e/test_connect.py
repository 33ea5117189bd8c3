"""Kafka Connect of a KafkaCluster on the cluster: workers come up, one is lost, they are scaled."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.place import Place
from kappa_crds.conditions import Condition, find_condition
from kappa_crds.connect import CONNECT_READY, ConnectStatus
from kappa_crds.kafkacluster import KafkaClusterStatus
from kappa_operator.certificates.issue import LIFE, get_hosts, issue
from kappa_operator.certificates.upkeep import read_certificates, write_certificates
from kappa_operator.connect.certificates import build_stores

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.chaos,
]  # `make test` has the workers of `test_cdc`, and workers as processes

START_SECONDS = 240
NOTICED_SECONDS = 15
WORKERS = "kappa-platform.io/role=connect"
_CLUSTER = {
    "apiVersion": "kappa-platform.io/v1alpha1",
    "kind": "KafkaCluster",
    "metadata": {"name": "main"},
    "spec": {
        "bootstrapServers": ["kafka.kafka.svc:9092"],
        "connect": {"workers": {"replicas": 2, "resources": {"cpu": "100m", "memory": "768Mi"}}},
    },
}
_FORWARD = """
import os, ssl, sys, urllib.error, urllib.request
context = ssl.create_default_context(cafile="/etc/kappa/rest/ca.crt")
context.load_cert_chain("/etc/kappa/rest/tls.crt", "/etc/kappa/rest/tls.key")
for host in sys.argv[1:]:
    request = urllib.request.Request(f"https://{host}:8443/connectors/none", method="DELETE")
    try:
        print(host, urllib.request.urlopen(request, context=context, timeout=30).status)
    except urllib.error.HTTPError as error:
        print(host, error.code)
"""


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    """A namespace with a KafkaCluster whose two workers are ready."""
    place = Place.create("connect")
    place.apply(json.dumps(_CLUSTER))
    place.await_ready("kafkacluster/main", 60)
    await_workers(place, "2/2")
    yield place
    place.empty(connect=True)


def read_status(place: Place) -> ConnectStatus:
    status = place.get("KafkaCluster", "main").status
    assert isinstance(status, KafkaClusterStatus)
    return status.connect or ConnectStatus()


def read_condition(place: Place) -> Condition | None:
    return find_condition(place.get("KafkaCluster", "main").status.conditions, CONNECT_READY)


def is_ready(place: Place, workers: str) -> bool:
    condition = read_condition(place)
    return condition is not None and condition.status == "True" and read_status(place).workers == workers


def await_workers(place: Place, workers: str, seconds: float = START_SECONDS) -> float:
    """Wait until so many workers are ready, and return the seconds that it took."""
    return measure(lambda: is_ready(place, workers), place, f"{workers} workers are ready", seconds)


def measure(check: Callable[[], bool], place: Place, what: str, seconds: float) -> float:
    started = time.monotonic()
    place.wait(check, what, seconds)
    return time.monotonic() - started


def list_hosts(place: Place, count: int) -> list[str]:
    return [f"main-connect-{number}.main-connect-pods.{place.name}.svc" for number in range(count)]


def test_workers_answer_the_operator_with_the_connectors_of_debezium(place: Place) -> None:
    status = read_status(place)
    assert (status.version, status.failure) == ("4.3.1", None)
    names = {each.split(" ")[0].rpartition(".")[2] for each in status.plugins}
    assert names == {"PostgresConnector", "MySqlConnector", "MariaDbConnector"}


def test_an_administrator_reads_the_rest_api_inside_of_a_worker(place: Place) -> None:
    command = ("exec", "main-connect-0", "--", "python3", "-I", "/opt/connect/rest.py", "/connectors")
    assert json.loads(place.kubectl(*command)) == []


def test_workers_forward_requests_to_their_leader_with_the_same_certificate(place: Place) -> None:
    """Only the leader deletes: it reports that there is no such connector, to whichever worker was asked."""
    hosts = list_hosts(place, 2)
    command = ("exec", "main-connect-0", "--", "python3", "-I", "-c", _FORWARD, *hosts)
    log = place.kubectl(*command)
    assert log.split() == [hosts[0], "404", hosts[1], "404"], log


def test_a_worker_that_is_killed_is_reported_within_seconds_and_comes_back(place: Place) -> None:
    await_workers(place, "2/2")
    place.kubectl("delete", "pod", "main-connect-1", "--grace-period=0", "--force")
    noticed = measure(
        lambda: read_status(place).workers == "1/2", place, "the loss is reported", NOTICED_SECONDS
    )
    assert place.ready("KafkaCluster", "main").status == "True"
    back = await_workers(place, "2/2")
    print(f"reported after {noticed:.1f} s, ready again after {back:.1f} s")


def test_an_unchanged_worker_is_not_replaced_by_credentials_of_a_database(place: Place) -> None:
    before = [each["metadata"]["uid"] for each in place.find("pods", "kappa-platform.io/role=connect")]
    place.kubectl("create", "secret", "generic", "main-connect-sources", "--from-literal=shop.password=x")
    place.patch("kafkacluster/main", {"checkInterval": "30s"})
    mounted = ("exec", "main-connect-0", "--", "ls", "/etc/kappa/sources")
    seconds = measure(lambda: "shop.password" in place.kubectl(*mounted), place, "the key is mounted", 150)
    assert seconds < 150
    after = [each["metadata"]["uid"] for each in place.find("pods", "kappa-platform.io/role=connect")]
    assert after == before


def age_certificate(place: Place) -> str:
    """Replace the certificate of the workers by one of the same authority that is due for renewal; return it."""
    body = json.loads(place.kubectl("get", "secret", "main-connect-rest", "-o", "json"))
    stored = read_certificates(body)
    assert stored is not None
    hosts = sorted(get_hosts(stored.serving.certificate))
    old = datetime.now(UTC) - 0.9 * LIFE
    aged = replace(stored, serving=issue(stored.authority, hosts, old, for_clients=True))
    data = write_certificates(aged) | build_stores(aged)
    place.kubectl("patch", "secret", "main-connect-rest", "--type=merge", "-p", json.dumps({"data": data}))
    return aged.serving.certificate


def read_certificate(place: Place, worker: int) -> str:
    """Return the certificate that a worker has."""
    return place.kubectl("exec", f"main-connect-{worker}", "--", "cat", "/etc/kappa/rest/tls.crt")


def is_pod_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def test_a_certificate_that_is_due_is_renewed_and_workers_with_both_trust_each_other(place: Place) -> None:
    await_workers(place, "2/2")
    before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in place.find("pods", WORKERS)}
    aged = age_certificate(place)
    place.patch("kafkacluster/main", {"checkInterval": "31s"})

    def list_replaced() -> list[str]:
        pods = place.find("pods", WORKERS)
        ready = (each["metadata"] for each in pods if is_pod_ready(each))
        return [each["name"] for each in ready if before.get(each["name"]) != each["uid"]]

    seconds = measure(lambda: list_replaced() == ["main-connect-1"], place, "one worker is replaced", 300)
    hosts = list_hosts(place, 2)
    log = place.kubectl("exec", "main-connect-1", "--", "python3", "-I", "-c", _FORWARD, *hosts)
    assert log.split() == [hosts[0], "404", hosts[1], "404"], log
    place.wait(lambda: len(list_replaced()) == 2, "both workers are replaced", 300)
    await_workers(place, "2/2")
    renewed = {read_certificate(place, number) for number in (0, 1)}
    assert len(renewed) == 1
    assert aged not in renewed
    print(f"the first worker had the renewed certificate after {seconds:.1f} s")


def test_workers_are_scaled_and_removed_and_their_topics_stay(place: Place) -> None:
    place.patch("kafkacluster/main", {"connect": {"workers": {"replicas": 1}}})
    await_workers(place, "1/1")
    place.patch("kafkacluster/main", {"connect": None})
    gone = "kappa-platform.io/role=connect"
    place.wait(lambda: not place.find("pods", gone), "workers are gone", 120)
    place.wait(lambda: read_condition(place) is None, "the condition is gone", 30)
    place.patch("kafkacluster/main", {"connect": _CLUSTER["spec"]["connect"]})  # type: ignore[index]
    await_workers(place, "2/2")
