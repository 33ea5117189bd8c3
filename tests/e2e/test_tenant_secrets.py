"""A tenant names Secrets of other tools in its resources: neither the operator nor a pod sends them anywhere."""

import json
import shlex
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from e2e.place import Place
from kappa_crds.reasons import Reason
from lab import network

pytestmark = pytest.mark.timeout(600)

PASSWORD = "canary-of-payroll"
SECRET = {
    "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "payroll"},
    "stringData": {"username": "payroll", "password": PASSWORD, "accessKeyId": "payroll", "secretAccessKey": PASSWORD},
}  # fmt: skip
RESOURCES = """
apiVersion: kappa-platform.io/v1alpha1
kind: KafkaCluster
metadata: {{name: stolen}}
spec:
  bootstrapServers: ["{server}"]
  sasl: {{mechanism: PLAIN, credentialsSecretRef: {{name: payroll}}}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: KafkaCluster
metadata: {{name: clear}}
spec:
  bootstrapServers: ["kafka.kafka.svc:9092"]
  sasl: {{mechanism: PLAIN, credentialsSecretRef: {{name: payroll}}}}
---
apiVersion: kappa-platform.io/v1alpha1
kind: StateStore
metadata: {{name: stolen}}
spec: {{s3: {{bucket: state, endpoint: "http://{server}", credentialsSecretRef: {{name: payroll}}}}}}
"""


@pytest.fixture
def place(platform: None) -> Iterator[Place]:
    created = Place.create("stolen")
    yield created
    created.empty()


@contextmanager
def count_connections() -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a server on the node, and who connected to it."""
    clients: list[str] = []
    with socket.create_server((network.NODE_IP, 0)) as server:

        def take() -> None:
            try:
                while True:
                    connection, (address, *_) = server.accept()
                    clients.append(str(address))
                    connection.close()
            except OSError:
                return

        thread = Thread(target=take, daemon=True)
        thread.start()
        yield f"{network.NODE_IP}:{server.getsockname()[1]}", clients
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_secret_of_another_tool_is_sent_nowhere(place: Place) -> None:
    place.apply(json.dumps(SECRET))
    with count_connections() as (server, clients):
        place.apply(RESOURCES.format(server=server))
        refused = place.await_reason("KafkaCluster", "stolen", Reason.SECRET_NOT_ALLOWED, 60)
        store = place.await_reason("StateStore", "stolen", Reason.SECRET_NOT_ALLOWED, 60)
        place.await_reason("KafkaCluster", "clear", Reason.CLEAR_TEXT_CREDENTIALS, 60)
        read = place.kubectl("get", "kappa,pods,events", "-o", "yaml")
        assert not json.loads(place.kubectl("get", "pods", "-o", "json"))["items"]
        assert not clients
        assert PASSWORD not in read
        assert server in store.message

        command = shlex.split(refused.message.partition("run: ")[2])
        assert command[:4] == ["kubectl", "annotate", "secret", "payroll"]
        place.kubectl(*command[1:4], command[-1])
        place.wait(lambda: bool(clients), "the operator connects once the Secret allows it", 60)
