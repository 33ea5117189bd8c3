"""The local cluster itself: what the other end-to-end tests take for granted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from e2e.reads import list_pods
from lab import buildah, cluster, kafka, kube, network, processes, storage
from lab.paths import REPOSITORY
from lab.records import read_one, send_one
from lab.s3 import FOR_PODS, ObjectStore

IMAGE = "kappa/kafka:4.3.1"
JAVA = ("java", "-Xmx64m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
BARE = not cluster.is_docker_there()

pytestmark = pytest.mark.skipif(
    BARE and (os.geteuid() != 0 or shutil.which("apt-get") is None),
    reason="the local cluster needs a Docker engine, or root on Debian",
)
bare_only = pytest.mark.skipif(not BARE, reason="about the cluster without a Docker engine")


def lab(*arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY / "tests")}
    return subprocess.Popen([sys.executable, "-m", "lab", *arguments], env=environment)


def lab_done(*arguments: str) -> None:
    assert lab(*arguments).wait() == 0


@pytest.fixture(scope="module", autouse=True)
def running_cluster() -> None:
    lab_done("up")


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    name = f"lab-{uuid.uuid4().hex[:8]}"
    kube.apply([kube.namespace(name)])
    yield name
    kube.kubectl("delete", "namespace", name, "--wait=false")


def restricted_pod(namespace: str, command: list[str], claim: str = "") -> dict[str, Any]:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}] if claim else []
    mounts = [{"name": "data", "mountPath": "/data"}] if claim else []
    container = {
        "name": "main",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
        "volumeMounts": mounts,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    security = {"runAsNonRoot": True, "runAsUser": 12345, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{uuid.uuid4().hex[:8]}", "namespace": namespace},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "securityContext": security,
            "containers": [container],
            "volumes": volumes,
        },
    }


def read_phase(namespace: str, name: str) -> str:
    (pod,) = [pod for pod in list_pods(namespace) if pod["metadata"]["name"] == name]
    return str(pod["status"]["phase"])


def run_pod(namespace: str, command: list[str], claim: str = "") -> str:
    """Run a pod to its end and return what it printed."""
    pod = restricted_pod(namespace, command, claim)
    kube.apply([pod])
    name = pod["metadata"]["name"]
    deadline = time.monotonic() + 60
    while (phase := read_phase(namespace, name)) not in {
        "Succeeded",
        "Failed",
    } and time.monotonic() < deadline:
        time.sleep(0.2)
    output = kube.kubectl("logs", name, "-n", namespace)
    assert phase == "Succeeded", output
    return output


@pytest.fixture
def topic() -> Iterator[str]:
    name = f"lab-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka.host_bootstrap()})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)
    yield name
    admin.delete_topics([name])[name].result(20)


def server_pids() -> dict[str, int | None]:
    return {name: processes.running_pid(name) for name in processes.recorded_names()}


@bare_only
def test_a_second_up_restarts_nothing() -> None:
    before = server_pids()
    lab_done("up")
    assert server_pids() == before
    assert None not in before.values()


def test_a_restricted_pod_writes_to_a_volume_made_on_demand(namespace: str) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    kube.apply([claim])
    script = "id -u; echo kept > /data/file; cat /data/file; touch /denied 2>/dev/null || echo read-only"
    assert run_pod(namespace, ["sh", "-c", script], claim="data").split() == ["12345", "kept", "read-only"]
    found = json.loads(kube.kubectl("get", "pvc", "data", "-n", namespace, "-o", "json"))
    assert found["spec"]["storageClassName"] == storage.CLASS


def test_a_pod_below_the_security_standard_is_refused(namespace: str) -> None:
    pod = restricted_pod(namespace, ["true"])
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(Exception, match="violates PodSecurity"):
        kube.apply([pod])


def test_pods_find_services_by_name(namespace: str) -> None:
    script = (
        "import socket; print(*(socket.gethostbyname(n) for n in ('kubernetes.default', 'kafka.kafka.svc')))"
    )
    addresses = run_pod(namespace, ["python3", "-c", script]).split()
    service = kube.kubectl("get", "service", "kafka", "-n", "kafka", "-o", "jsonpath={.spec.clusterIP}")
    assert addresses == [network.KUBERNETES_IP, service] if BARE else addresses[1] == service


def test_a_record_goes_from_the_host_to_a_pod(namespace: str, topic: str) -> None:
    send_one(kafka.host_bootstrap(), topic, b"from the host")
    tool = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    options = ["--topic", topic, "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000"]
    command = [*JAVA, "-cp", "/opt/kafka/libs/*", tool, "--bootstrap-server", kafka.BOOTSTRAP]
    assert "from the host" in run_pod(namespace, [*command, *options])


def test_a_record_goes_from_a_pod_to_the_host(namespace: str, topic: str) -> None:
    java = f"{' '.join(JAVA)} -cp '/opt/kafka/libs/*' org.apache.kafka.tools.ConsoleProducer"
    command = f"echo from a pod | {java} --bootstrap-server {kafka.BOOTSTRAP} --topic {topic}"
    run_pod(namespace, ["sh", "-c", command])
    assert read_one(kafka.host_bootstrap(), topic) == b"from a pod"


@bare_only
def test_pods_reach_an_object_store_of_a_test(namespace: str) -> None:
    with ObjectStore(address=FOR_PODS) as store:
        script = f"import urllib.request as r; print(r.urlopen('{store.endpoint}/health').status)"
        assert run_pod(namespace, ["python3", "-c", script]).strip() == "200"


def machine() -> dict[str, list[str]]:
    """What a cluster could leave behind on the machine."""

    def lines(*command: str) -> list[str]:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return sorted(line for line in output if not line.startswith("#"))

    settings = ("ipv4/ip_forward", "ipv4/conf/all/route_localnet")
    known = ("containerd", "runc", "kube", "etcd", "coredns", "kappa-", "sleep infinity", "/opt/kafka")
    # Those that have ended but were not yet read by the machine's first process (state Z) don't count.
    living = [line for line in lines("ps", "-eo", "stat,args") if not line.startswith("Z")]
    return {
        "rules": lines("iptables-save") + lines("ip6tables-save") + lines("nft", "list", "tables"),
        "sets": lines("ipset", "list", "-name"),
        "mounts": lines("mount"),
        "links": lines("ip", "-o", "link"),
        "namespaces": lines("ip", "netns"),
        "groups": [str(path) for path in Path("/sys/fs/cgroup").glob("*/kappa-lab")],
        "settings": [Path("/proc/sys/net", name).read_text() for name in settings],
        "processes": [line for line in living if any(word in line for word in known)],
    }


@bare_only
@pytest.mark.chaos
def test_killed_servers_come_back_with_the_next_up() -> None:
    for names in (["kubelet", "kube-apiserver"], ["containerd", "etcd"], ["kube-proxy", "coredns"]):
        before = server_pids()
        for name in names:
            pid = before[name]
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        lab_done("up")
        after = server_pids()
        assert None not in after.values()
        assert all(after[name] != before[name] for name in names)
    kube.kubectl("rollout", "status", "statefulset/kafka", "-n", "kafka", "--timeout=120s")


@bare_only
@pytest.mark.chaos
def test_down_leaves_the_machine_as_it_was_even_after_an_interrupted_up() -> None:
    lab_done("down")
    before = machine()
    for seconds in (1.0, 4.0, 9.0, 14.0):
        interrupted = lab("up")
        time.sleep(seconds)
        interrupted.kill()
        interrupted.wait()
    lab_done("up")
    assert kube.kubectl("get", "nodes", "-o", "name").strip() == f"node/{network.NODE}"
    assert buildah.has_image(buildah.BASE)  # which leaves a mount behind, as every command of buildah
    for name in ("containerd", "kubelet"):
        pid = processes.running_pid(name)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
    lab_done("down")
    after = machine()
    lab_done("up")
    assert after == before
