"""Which ports of driver, executor and operator a pod reaches: only those that it has business with, in every namespace.

Each pod may connect to anything by the policies of its own namespace, so a refusal is that of the other side. That it reaches Kafka
and the admission webhook shows that it can connect at all.
"""

import json
from collections.abc import Iterator

import pytest

from e2e.counting import Guarded
from e2e.place import Place
from e2e.test_tenants import run_pod
from lab import kube
from platform_switch import NAMESPACE

pytestmark = pytest.mark.timeout(600)

Target = tuple[str, int]
_CONNECT = """
import json, socket, sys, time
targets, attempts = json.loads(sys.argv[1]), int(sys.argv[2])
def connect(host, port):
    try:
        socket.create_connection((host, port), 3).close()
        return "open"
    except OSError as error:
        return f"closed {error}"
for host, port in targets:
    result = connect(host, port)
    for _ in range(attempts - 1):
        if result == "open":
            time.sleep(0.5)
            result = connect(host, port)
    print(f"{host}:{port} {result}")
"""
CONTROL, CONTROL_TLS, RPC, BLOCKS = 8080, 8443, 7078, 7079
HEALTH, ALERTS, ADMISSION, METRICS = 8080, 8082, 8443, 8444


@pytest.fixture(scope="module")
def stranger(platform: None) -> Iterator[Place]:
    place = Place.create("stranger")
    place.admit_egress()
    yield place
    place.empty()


def find_pod(place: Place, role: str) -> str:
    (pod, *_) = place.find("pods", f"kappa-platform.io/role={role}", fields="status.phase=Running")
    return str(pod["status"]["podIP"])


def find_operator() -> str:
    pods = json.loads(kube.kubectl("get", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=kappa-operator", "-o", "json"))  # fmt: skip
    return next(
        str(each["status"]["podIP"]) for each in pods["items"] if each["status"]["phase"] == "Running"
    )


def find_open(
    place: Place, name: str, targets: list[Target], attempts: int = 1, **labels: str
) -> set[Target]:
    """Return those of the targets that a pod with the labels can connect to, in each of so many attempts."""
    command = ("python3", "-c", _CONNECT, json.dumps(targets), str(attempts))
    log = run_pod(place, name, *command, **labels)
    found = {f"{host}:{port}": (host, port) for host, port in targets}
    lines = [line.split() for line in log.splitlines() if line.split()[0] in found]
    assert len(lines) == len(targets), log
    return {found[line[0]] for line in lines if line[1] == "open"}


def list_targets(guarded: Guarded) -> tuple[list[Target], set[Target]]:
    """Return ports of the platform that no other pod has business with, and ports that any pod may use."""
    driver, executor, operator = (
        find_pod(guarded.place, "driver"),
        find_pod(guarded.place, "executor"),
        find_operator(),
    )
    closed = [(driver, CONTROL), (driver, CONTROL_TLS), (driver, RPC), (driver, BLOCKS), (executor, BLOCKS)]
    closed += [(operator, HEALTH), (operator, ALERTS), (operator, METRICS)]
    return closed, {("kafka.kafka.svc", 9092), (operator, ADMISSION)}


def test_a_pod_of_another_namespace_reaches_no_port_of_the_platform(
    guarded: Guarded, stranger: Place
) -> None:
    closed, admitted = list_targets(guarded)
    assert find_open(stranger, "stranger", [*closed, *admitted]) == admitted


def test_a_pod_of_the_same_namespace_reaches_no_port_of_a_pipeline(guarded: Guarded) -> None:
    closed, admitted = list_targets(guarded)
    guarded.place.admit_egress(app="neighbour")
    assert find_open(guarded.place, "neighbour", [*closed, *admitted], app="neighbour") == admitted


def test_a_pod_without_a_policy_reaches_nothing_in_a_namespace_that_denies_by_default(
    guarded: Guarded,
) -> None:
    _, admitted = list_targets(guarded)
    # The rules of a new pod take effect a moment after it has its address.
    assert find_open(guarded.place, "silent", sorted(admitted), attempts=40) == set()


def test_a_driver_reaches_kafka_and_not_what_is_open_to_any_other_pod(guarded: Guarded) -> None:
    (driver,) = guarded.place.drivers()
    host, port = guarded.broker.sasl_bootstrap.split(":")
    targets = [(host, int(port)), (find_operator(), ADMISSION), ("kafka.kafka.svc", 9092)]
    log = guarded.place.kubectl("exec", driver, "--", "python3", "-c", _CONNECT, json.dumps(targets), "1")
    assert [line.split()[1] for line in log.splitlines()] == ["open", "closed", "closed"], log
