"""Kafka in the cluster: a StatefulSet of brokers that are also controllers, reachable from pods and the host.

In the cluster `kafka.kafka.svc:9092`; on the host 127.0.0.1:30092 (broker 0), 30093, 30094. A listener of its
own serves the host, because a client uses the addresses that brokers advertise.
"""

import socket
from typing import Any

from lab import kafka_jars, kube
from lab.errors import LabError
from lab.progress import report
from lab.shell import run, wait_until

NAMESPACE = "kafka"
BOOTSTRAP = "kafka.kafka.svc:9092"
EXTERNAL_PORT = 30092
_DOMAIN = "kafka-brokers.kafka.svc.cluster.local"
_CLUSTER_ID = "a2FwcGEta2Fma2EtbGFiMQ"  # 16 bytes in URL-safe base64; fixed, so that volumes stay valid
_LABELS = {"app.kubernetes.io/name": "kafka"}
_HEAP_MIB = {1: 512, 3: 256}


def host_bootstrap(brokers: int = 1) -> str:
    """The bootstrap servers for a client on the host."""
    return ",".join(f"127.0.0.1:{EXTERNAL_PORT + number}" for number in range(brokers))


def _properties(brokers: int) -> str:
    voters = ",".join(f"{number}@kafka-{number}.{_DOMAIN}:9091" for number in range(brokers))
    minimum = 2 if brokers > 1 else 1
    return f"""process.roles=broker,controller
controller.quorum.voters={voters}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://:9092,CONTROLLER://:9091,EXTERNAL://:9094
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXTERNAL:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=/var/lib/kafka/data
auto.create.topics.enable=false
default.replication.factor={brokers}
min.insync.replicas={minimum}
offsets.topic.replication.factor={brokers}
offsets.topic.num.partitions=10
transaction.state.log.replication.factor={brokers}
transaction.state.log.min.isr={minimum}
transaction.state.log.num.partitions=10
share.coordinator.state.topic.replication.factor={brokers}
share.coordinator.state.topic.min.isr={minimum}
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=6000
controlled.shutdown.enable=true
log.cleaner.dedupe.buffer.size=16777216
"""


def _service(name: str, ports: dict[str, int], **spec: Any) -> dict[str, Any]:
    listed = [{"name": port, "port": number} for port, number in ports.items()]
    for port in listed:
        if (node_port := spec.get("nodePort")) and port["name"] == "external":
            port["nodePort"] = node_port
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": _LABELS},
        "spec": {
            "selector": _LABELS,
            "ports": listed,
            **{key: value for key, value in spec.items() if key != "nodePort"},
        },
    }


def _services(brokers: int) -> list[dict[str, Any]]:
    internal = {"kafka": 9092, "controller": 9091}
    services = [
        _service("kafka", {"kafka": 9092}),
        # Controllers must find each other before any of them is ready.
        _service("kafka-brokers", internal, clusterIP="None", publishNotReadyAddresses=True),
    ]
    for number in range(brokers):
        pod = {"statefulset.kubernetes.io/pod-name": f"kafka-{number}"}
        services.append(
            _service(
                f"kafka-{number}-external",
                {"external": 9094},
                type="NodePort",
                selector=pod,
                nodePort=EXTERNAL_PORT + number,
            )
        )
    return services


def _container(heap: int) -> dict[str, Any]:
    options = (
        f"-Xms{heap // 2}m -Xmx{heap}m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:+ExitOnOutOfMemoryError"
    )
    environment = {
        "CLUSTER_ID": _CLUSTER_ID,
        "DOMAIN": _DOMAIN,
        "EXTERNAL_PORT": str(EXTERNAL_PORT),
        "JAVA_OPTIONS": options,
    }
    return {
        "name": "kafka",
        "image": f"kappa/kafka:{kafka_jars.VERSION}",
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "ports": [
            {"name": "kafka", "containerPort": 9092},
            {"name": "controller", "containerPort": 9091},
            {"name": "external", "containerPort": 9094},
        ],
        "readinessProbe": {"tcpSocket": {"port": "kafka"}, "periodSeconds": 2, "failureThreshold": 3},
        "resources": {
            "requests": {"cpu": "100m", "memory": f"{heap + 256}Mi"},
            "limits": {"memory": f"{heap + 512}Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "data", "mountPath": "/var/lib/kafka"},
            {"name": "properties", "mountPath": "/etc/kafka"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _stateful_set(brokers: int) -> dict[str, Any]:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}},
    }
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "runAsGroup": 1000,
            "fsGroup": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(_HEAP_MIB[brokers])],
        "volumes": [
            {"name": "properties", "configMap": {"name": "kafka"}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "kafka", "namespace": NAMESPACE, "labels": _LABELS},
        "spec": {
            "serviceName": "kafka-brokers",
            "replicas": brokers,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": pod},
            "volumeClaimTemplates": [claim],
        },
    }


def objects(brokers: int) -> list[dict[str, Any]]:
    """Everything that makes a Kafka of that many brokers."""
    configuration = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kafka", "namespace": NAMESPACE},
        "data": {"server.properties": _properties(brokers)},
    }
    return [kube.namespace(NAMESPACE), configuration, *_services(brokers), _stateful_set(brokers)]


def present_brokers() -> int:
    """How many brokers the cluster has now; 0 without Kafka."""
    found = kube.kubectl(
        "get",
        "statefulset",
        "kafka",
        "-n",
        NAMESPACE,
        "--ignore-not-found",
        "-o",
        "jsonpath={.spec.replicas}",
    )
    return int(found or 0)


def ensure(brokers: int) -> None:
    """Make Kafka run with that many brokers; another number than before starts it empty."""
    if brokers not in _HEAP_MIB:
        raise LabError(f"brokers: {brokers} is not one of {sorted(_HEAP_MIB)}")
    present = present_brokers()
    if present not in {0, brokers}:
        # The voters of a quorum are part of what its volumes hold; a mixture of old and new could lose data.
        report(f"kafka: {present} → {brokers} brokers; topics are lost")
        kube.kubectl("delete", "namespace", NAMESPACE, "--wait=true")
    kube.apply(objects(brokers))
    kube.kubectl("rollout", "status", "statefulset/kafka", "-n", NAMESPACE, "--timeout=180s", timeout=200)
    _wait_for_host_ports(brokers)


def _wait_for_host_ports(brokers: int) -> None:
    """kube-proxy opens a broker's port a moment after the broker is ready."""

    def accepts(port: int) -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=2).close()
        except OSError:
            return False
        return True

    for port in range(EXTERNAL_PORT, EXTERNAL_PORT + brokers):
        wait_until(lambda port=port: accepts(port), f"127.0.0.1:{port} accepts", seconds=30)  # type: ignore[misc]


def logs(number: int = 0) -> str:
    """The log of one broker."""
    return kube.kubectl("logs", "-n", NAMESPACE, f"kafka-{number}")


def topic_tool(*arguments: str) -> str:
    """Run kafka-topics against the host's listener."""
    jars = f"{kafka_jars.fetch()}/*"
    tool = "org.apache.kafka.tools.TopicCommand"
    return run(["java", "-cp", jars, tool, "--bootstrap-server", host_bootstrap(), *arguments])
