"""The operator in front of a real Kafka Connect with Debezium, a real database and a real broker.

The API server is that of the unit tests. What a kubelet does is done here: the pod's own program runs with its own request and the files
of its Secret, and workers see the Secret that the operator writes.
"""

import asyncio
import base64
import json
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, LiteralString, Self, TypeVar

from confluent_kafka import Consumer, TopicPartition

from fakes.cluster import Body
from fakes.context import FakeDrivers, Operator, build_resource, build_secret
from integration.connect_servers import ConnectServers, leave_nothing
from kappa_operator.cdcsource.pods import REQUEST_ANNOTATION
from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.model import ConnectAccess
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import ConnectorNotFound
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.settings import Settings
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.mariadb import MariaDB
from lab.postgres import DATABASE, Postgres

CLUSTER, SOURCE = Key("KafkaCluster", "shop", "main"), Key("CDCSource", "shop", "orders")
REF = ObjectRef("kappa-platform.io/v1alpha1", *SOURCE)
_SECRET = ObjectRef("v1", "Secret", "shop", "main-connect-sources")


Database = TypeVar("Database", bound=Postgres | MariaDB)


@contextmanager
def run_postgres_lab(
    statements: Iterable[LiteralString], servers: ConnectServers, **settings: str
) -> Iterator[tuple[Postgres, ConnectCluster, Broker]]:
    """Yield a database after these statements, workers of Kafka Connect, and their broker."""
    with Postgres(**settings) as database, leave_nothing(servers):
        for statement in statements:
            database.execute(statement)
        yield database, *servers


class DatabaseCapture(Operator, ABC, Generic[Database]):
    """One life of the operator with a source. `database`, `workers` and `broker` are real. The table is `orders`, its topic `topic`."""

    is_strict = False
    topic: str

    def __init__(self, database: Database, workers: ConnectCluster, broker: Broker) -> None:
        super().__init__(KIND_TABLE)
        self.database: Database = database
        self.workers, self.broker = workers, broker
        self.clients, self.rest = AdminClients(), HttpConnect()
        self.context = OperatorContext(
            cluster=self.cluster, cache=self.cache, kafka=self.clients, drivers=FakeDrivers(), connect=self.rest,
            settings=Settings(allow_clear_text=("127.0.0.1",), connect_hosts=("127.0.0.1",)),
        )  # fmt: skip
        self.pods = 0

    async def __aenter__(self) -> Self:
        connect = {"existing": {"url": self.workers.url}}
        body = build_resource("KafkaCluster", "main", bootstrapServers=[self.broker.bootstrap], connect=connect)  # fmt: skip
        self.cluster.put(body)
        self.cluster.put(build_secret("login", username="reader", password="geheim"))
        await self.settle(CLUSTER)
        status = {"connect": {"url": self.workers.url}}
        self.cluster.patch(ObjectRef("kappa-platform.io/v1alpha1", *CLUSTER), status=status)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.rest.close()
        await self.clients.close()

    @property
    def access(self) -> ConnectAccess:
        """Return how to reach Kafka Connect."""
        return ConnectAccess(self.workers.url, None, None, None)

    async def has_connector(self) -> bool:
        """Return whether Kafka Connect has the connector."""
        try:
            await self.rest.get_status(self.access, SOURCE.name)
        except ConnectorNotFound:
            return False
        return True

    async def until_no_connector(self) -> None:
        """Wait until Kafka Connect has no connector: it reads the end of its status from a topic, after the deletion."""
        end = asyncio.get_running_loop().time() + 90.0
        while await self.has_connector():
            assert asyncio.get_running_loop().time() < end, "Kafka Connect still has the connector"
            await asyncio.sleep(0.25)

    def write(
        self, *, tls: bool = False, guard: Body | None = None, failover: bool = False, **fields: Any
    ) -> None:
        """Apply the source; with TLS the authority is in the Secret `ca`. `guard` is that of the slot, which may be a failover slot."""
        login = {"credentialsSecretRef": {"name": "login"}}
        server: dict[str, Any] = {"host": "127.0.0.1", "port": self.database.port, **login}
        if guard is not None:
            server["slotGuard"] = guard
        if failover:
            server["failoverSlot"] = True
        if tls:
            server["tls"] = {"caSecretRef": {"name": "ca"}}
        spec = {
            **self.describe(server),
            "heartbeatInterval": "1s",
            "checkInterval": "5s",
            "restart": {"initialDelay": "2s"},
            "config": {"poll.interval.ms": 100},
        }
        self.cluster.put(build_resource("CDCSource", "orders", **{**spec, **fields}))

    async def until(self, done: Callable[[Self], object], what: str, seconds: float = 90.0) -> None:
        """Reconcile as the controller does, with what a kubelet does in between, until something holds."""
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end:
            outcome = await self.reconcile(SOURCE)
            self._run_pods()
            self._mount_secret()
            if done(self):
                return
            await asyncio.sleep(min(outcome.requeue_after or 1.0, 0.5))
        raise AssertionError(f"{what}: {(self.get(SOURCE) or {}).get('status')}")

    async def until_reason(self, reason: str, seconds: float = 90.0) -> str:
        """Reconcile until Ready has a reason; return its message."""
        await self.until(lambda it: it.get_condition(SOURCE)[1] == reason, reason, seconds)
        return self.get_condition(SOURCE)[2]

    async def until_equal(self) -> None:
        """Reconcile until the topic has the rows of the table."""
        wanted = self.read_table()
        await self.until(lambda it: it.read_rows() == wanted, f"{len(wanted)} rows", seconds=90.0)

    @abstractmethod
    def describe(self, server: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the spec about the database and its tables."""

    @abstractmethod
    def read_table(self) -> dict[int, str]:
        """Return the rows of the table."""

    def read_rows(self) -> dict[int, str]:
        """Return the rows that follow from the topic."""
        rows: dict[int, str] = {}
        for key, value in self.read_records(self.topic):
            if value is None or value["op"] == "d":
                rows.pop(key["id"], None)
            else:
                rows[key["id"]] = value["after"]["item"]
        return rows

    def count_operations(self, operation: str) -> int:
        """Return how many events of an operation the topic has: r is a row of a snapshot."""
        records = self.read_records(self.topic)
        return sum(value is not None and value["op"] == operation for _, value in records)

    def read_records(self, topic: str) -> list[tuple[Any, Any]]:
        """Return all committed records of a topic with one partition."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "it", "isolation.level": "read_committed", "enable.partition.eof": True, "error_cb": lambda _error: None})  # fmt: skip
        found: list[tuple[Any, Any]] = []
        try:
            consumer.assign([TopicPartition(topic, 0, 0)])
            while (message := consumer.poll(30.0)) is not None and message.error() is None:
                value = message.value()
                found.append((json.loads(message.key() or b"null"), json.loads(value) if value else None))
        finally:
            consumer.close()
        return found

    def read_offsets(self, request: str) -> dict[str, Any]:
        """Return the answer to a request about the position; nothing while there is none."""
        answer: dict[str, Any] = ((self.get(SOURCE) or {}).get("status", {}).get("offsets")) or {}
        return answer if answer.get("request") == request else {}

    def _mount_secret(self) -> None:
        data = (self.cluster.read(_SECRET) or {}).get("data") or {}
        self.workers.write_sources({name: base64.b64decode(value) for name, value in data.items()})

    def _run_pods(self) -> None:
        for pod in self.cluster.find("v1", "Pod", "shop"):
            if "phase" not in pod.get("status", {}):
                self._run_pod(pod)

    def _run_pod(self, pod: Body) -> None:
        """Run the program of the pod with its own request and the files of its Secret."""
        container = pod["spec"]["containers"][0]
        with tempfile.TemporaryDirectory() as folder:
            request, result = (Path(folder) / name for name in ("request.json", "result"))
            request.write_text(pod["metadata"]["annotations"][REQUEST_ANNOTATION])
            arguments = [str(request), *self._mount_all(pod, Path(folder)), str(result)]
            command = [sys.executable, *container["command"][1:], *arguments]
            ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
            assert "geheim" not in ended.stdout + ended.stderr
            message = result.read_text() if result.exists() else ended.stderr
        self.pods += 1
        terminated = {"exitCode": ended.returncode, "message": message}
        status = {
            "phase": "Succeeded" if ended.returncode == 0 else "Failed",
            "containerStatuses": [{"state": {"terminated": terminated}}],
        }
        self.cluster.patch(ObjectRef.of(pod), status=status)

    def _mount_all(self, pod: Body, folder: Path) -> list[str]:
        """Write the Secrets of the volumes of a pod; return their folders in the order of its arguments."""
        folders = []
        for volume in pod["spec"]["volumes"]:
            if "projected" in volume:
                path = folder / volume["name"]
                path.mkdir()
                folders.append(str(path))
                for source in volume["projected"]["sources"]:
                    self._mount(source["secret"], path)
        return folders

    def _mount(self, source: Body, folder: Path) -> None:
        """Write the keys of a Secret as files, as the volume of a pod has it."""
        secret = self.cluster.read(ObjectRef("v1", "Secret", "shop", source["name"])) or {}
        for item in source["items"]:
            (folder / item["path"]).write_bytes(base64.b64decode(secret["data"][item["key"]]))


class Capture(DatabaseCapture[Postgres]):
    """A source of PostgreSQL."""

    topic = "orders.public.orders"

    def describe(self, server: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the spec about the database and its tables."""
        return {"postgresql": {**server, "database": DATABASE}, "tables": {"include": ["public.*"]}}

    def read_table(self) -> dict[int, str]:
        """Return the rows of the table."""
        return dict(self.database.query("SELECT id, item FROM orders"))

    def list_slots(self) -> list[str]:
        """Return the names of all slots."""
        return [str(name) for (name,) in self.database.query("SELECT slot_name FROM pg_replication_slots")]


class MariaDBCapture(DatabaseCapture[MariaDB]):
    """A source of MariaDB."""

    topic, kind = "orders.shop.orders", "mariadb"

    def describe(self, server: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the spec about the database and its tables."""
        return {self.kind: {**server, "serverId": 4711}, "tables": {"include": ["shop.*"]}}

    def read_table(self) -> dict[int, str]:
        """Return the rows of the table."""
        return dict(self.database.execute("SELECT id, item FROM shop.orders"))


class MySQLCapture(MariaDBCapture):
    """A source of MySQL."""

    kind = "mysql"
