"""The shop of the demo, at work for ten minutes while everything that its views depend on dies at random: nothing is lost.

PostgreSQL or MariaDB in a pod, Debezium in the operator's workers, a broker that can be killed, and the pipeline of the example; a table
of a MariaDB, the same one or in another pod, is followed by a source of its own. Every kind of fault comes once before one comes again. At the end topics, state and views equal the
databases, row for row, and the rows were read by one snapshot. `KAPPA_CHAOS_SECONDS` makes it shorter, `KAPPA_SEED` repeats what was
chosen.
"""

import json
import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pymysql
import pytest

from demo.compare import read_topic
from demo.platform import ensure_images
from demo.shop.application import ADD_COLUMN, Application, Database
from demo.shop.manifests import TABLES, Example, build_secret
from demo.shop.scene import DATABASE, Shop, await_equal, open_shop, prove_topics
from demo.shop.views import LIVE_STOCK, ORDER_LINES, ORDERS_WITH_TIERS, View
from e2e import ware
from e2e.driver_watch import DriverWatch
from e2e.faults import Faults, kill_processes, lose_pod
from e2e.installation import name_place
from e2e.mariadb_shop import MariaDBShop, build_database
from e2e.place import Place
from e2e.ware import Ware, list_differences, read_table
from lab import cluster, network
from lab.broker import Broker
from lab.database_pods import MARIADB, POSTGRES, DatabasePod

pytestmark = [
    pytest.mark.timeout(3 * 3600),
    pytest.mark.chaos,
    pytest.mark.skipif(cluster.is_docker_there(), reason="kills processes of this machine"),
]

SECONDS = float(os.environ.get("KAPPA_CHAOS_SECONDS", "600"))
SEED = int(os.environ.get("KAPPA_SEED", "0")) or random.SystemRandom().randrange(1, 10_000)
CUT = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pymysql.OperationalError,
    pymysql.InterfaceError,
    OSError,
)
_BETWEEN = 5.0, 20.0
"""Seconds between two faults."""
_PAUSE = 0.05
_QUIET_SECONDS = 10
"""How long the application writes after the last fault."""
_RECOVERED_SECONDS = 300
TOUCHES = (
    "UPDATE customers SET city = coalesce(city, '') || ' again'",
    "UPDATE products SET name = name || ' again'",
    "UPDATE orders SET status = 'checked'",
    "UPDATE items SET quantity = quantity + 1",
    "UPDATE stock SET quantity = quantity + 1",
)
"""Each changes all rows of one table, which the pipeline joins with the rows of the others as it has them in state."""


@dataclass(frozen=True)
class ShopFaults(Faults):
    """Faults of all that is between a database and a view of it."""

    databases: tuple[DatabasePod, ...]

    def rounds(self) -> Iterator[Callable[[], str]]:
        """Yield the kinds in random order, all of them before one comes again."""
        kinds: list[Callable[[], str]] = [
            self.kill_worker, self.forget_worker, self.kill_broker, self.lose_operator, self.kill_jvm, self.kill_driver,
            self.forget_driver, *([self.lose_database] * len(self.databases)),
        ]  # fmt: skip
        while True:
            yield from self.random.sample(kinds, len(kinds))

    def kill_worker(self) -> str:
        """Kill all processes of a worker of Kafka Connect."""
        name = self._choose_worker()
        kill_processes(name, self.place.name)
        return f"{name} was killed"

    def forget_worker(self) -> str:
        """Delete a worker's pod by force."""
        name = self._choose_worker()
        self.place.kubectl("delete", "pod", name, "--force", "--grace-period=0")
        return f"{name} was deleted by force"

    def lose_database(self) -> str:
        """Kill all processes of a server. It recovers from its log in another pod."""
        database = self.random.choice(self.databases)
        began = time.monotonic()
        lose_pod(database.pod, database.namespace)
        database.await_ready()
        return f"{database.pod} was killed, and ready again after {time.monotonic() - began:.1f} s"

    def _choose_worker(self) -> str:
        pods = self.place.find("pods", fields="status.phase=Running")
        names = [pod["metadata"]["name"] for pod in pods]
        return str(self.random.choice([name for name in names if name.startswith("main-connect-")]))


@dataclass
class Writer:
    """The application in a thread, over as many connections as the database cuts."""

    shop: Shop
    seed: int
    wants_tiers: threading.Event = field(default_factory=threading.Event)
    cut: int = 0
    """How many connections ended with an error."""

    def __post_init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="application")
        self.application: Application | None = None
        self.error: Exception | None = None

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(60)

    @property
    def done(self) -> int:
        """Return the number of transactions whose commit was confirmed."""
        return 0 if self.application is None else self.application.done.total()

    def _run(self) -> None:
        try:
            while not self._ended.wait(0.2):
                try:
                    with self.shop.connect() as database:
                        self._work(database)
                except CUT:
                    self.cut += 1
        except Exception as error:
            self.error = error

    def _work(self, database: Database) -> None:
        if self.application is None:
            self.application = Application(database, self.seed)
        self.application.database = database
        while not self._ended.wait(_PAUSE):
            if self.wants_tiers.is_set() and not self.application.has_tiers:
                database.execute(ADD_COLUMN.replace("COLUMN", "COLUMN IF NOT EXISTS").encode())
                self.application.has_tiers = True
            self.application.work()


@dataclass(frozen=True)
class Followed:
    """The shop, and the namespace that follows it."""

    place: Place
    broker: Broker
    shop: Shop
    ware: Ware
    example: Example
    snapshot: dict[str, int]
    """Rows of each table before the first write of the test."""

    def count_rows(self) -> dict[str, int]:
        """Return the number of rows of each table."""
        return count_rows(self.shop)

    def await_equal(self, *views: View) -> list[int]:
        """Wait until views equal the database, and return their numbers of rows."""
        deadline = time.monotonic() + _RECOVERED_SECONDS
        while True:
            found = await_equal(self.example, self.shop, self.broker.bootstrap, lambda _: None, views)
            differences = [difference for each in found for difference in each.differences]
            if not differences:
                return [len(each.found) for each in found]
            if time.monotonic() > deadline:
                self.place.fail(f"{len(differences)} differences, such as {differences[:5]}")

    def await_equal_ware(self) -> int:
        """Wait until the topic of the warehouse equals its table, and return the number of rows."""
        rows = self.ware.read_rows()

        def find() -> list[str]:
            return list(list_differences(rows, read_table(self.ware_topic, self.broker.bootstrap)))

        self.place.wait(lambda: not find(), "the topic equals the table of MariaDB", _RECOVERED_SECONDS)
        return len(rows)

    @property
    def ware_topic(self) -> str:
        """Return the topic of the warehouse's table."""
        return f"{self.place.name}-{ware.NAME}.{ware.TABLE}"


def count_rows(shop: Shop) -> dict[str, int]:
    """Return the number of rows of each table."""
    with shop.connect() as database:
        queries = {table: f"SELECT 1 FROM {table}".encode() for table in TABLES}  # noqa: S608 - names of this module
        return {table: database.execute(query).rowcount for table, query in queries.items()}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(address=network.NODE_IP, heap_mib=512) as running:
        yield running


@pytest.fixture(params=["postgresql", "mariadb"])
def followed(platform: None, broker: Broker, request: pytest.FixtureRequest) -> Iterator[Followed]:
    """The shop in one of the databases and the warehouse with their sources, and the pipeline, all Ready."""
    ensure_images("postgres", "mariadb")
    is_mariadb = request.param == "mariadb"
    place = Place.create("mariadb-shop" if is_mariadb else "shop")
    databases = name_place("mariadb" if is_mariadb else "database")
    warehouse = Ware(DatabasePod(MARIADB, databases).start(), SEED)
    warehouse.create_table()
    shop: Shop
    if is_mariadb:
        shop, schema = MariaDBShop(warehouse.database, warehouse.password), DATABASE
        shop.create_tables()
    else:
        shop, schema = open_shop(DatabasePod(POSTGRES, databases)), "public"
    example = Example(place.name, place.name, schema)
    place.apply(json.dumps(build_list(list(build_documents(example, broker.bootstrap, shop.server.server)))))
    for secret in (build_secret(shop.server, shop.password), ware.build_secret(warehouse)):
        place.apply(json.dumps(secret))
    place.apply(json.dumps(ware.build_source(warehouse.database.server, f"{place.name}-{ware.NAME}")))
    for resource in ("cdcsource/shop", f"cdcsource/{ware.NAME}", "pipeline/shop"):
        place.await_ready(resource)
    yield Followed(place, broker, shop, warehouse, example, count_rows(shop))
    place.empty(connect=True)


def build_documents(example: Example, bootstrap: str, database: DatabasePod) -> Iterator[dict[str, Any]]:
    """Yield the example's resources with the database of the test, two workers, small pods and short back-offs."""
    restart = {"initialDelay": "2s", "maxDelay": "10s"}
    small = {"driver": {"cpu": "100m", "memory": "1400Mi"}, "executors": {"count": 0}}
    workers = {"replicas": 2, "resources": {"cpu": "100m", "memory": "768Mi"}}
    more: dict[str, dict[str, Any]] = {
        "KafkaCluster": {"bootstrapServers": [bootstrap], "connect": {"workers": workers}},
        "CDCSource": {"restart": restart},
        "Pipeline": {"resources": small, "restart": {"maxDelay": "5s"}},
    }
    for document in example.documents("kafka.yaml", "cdcsource.yaml", "pipeline.yaml"):
        spec = {**document["spec"], **more.get(document["kind"], {})}
        if document["kind"] == "CDCSource":
            spec["postgresql"] = {**spec["postgresql"], "host": database.host}
        if document["kind"] == "CDCSource" and database.engine is MARIADB:
            del spec["postgresql"]
            spec |= build_database(database)
        yield {**document, "spec": spec}


def build_list(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return documents as one."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def test_topics_state_and_views_equal_the_database_after_ten_minutes_of_faults(
    followed: Followed, capsys: pytest.CaptureFixture[str]
) -> None:
    def say(text: str) -> None:
        with capsys.disabled():
            print(f"  {time.strftime('%H:%M:%S')} {text}", flush=True)

    say(f"seed {SEED}, {SECONDS:.0f} s, rows {followed.snapshot}")
    place = followed.place
    with DriverWatch(place.name) as drivers, followed.ware, Writer(followed.shop, SEED) as writer:
        hits = strike(followed, writer, say)
        time.sleep(_QUIET_SECONDS)
        drivers.check()
    assert (writer.error, followed.ware.error) == (None, None)
    began = time.monotonic()
    rows = followed.await_equal(ORDER_LINES, LIVE_STOCK)
    say(
        f"{writer.done} transactions, {writer.cut} connections cut, {dict(hits)};"
        f" views equal after {time.monotonic() - began:.0f} s: {rows} rows; {followed.count_rows()}"
    )
    say(
        f"MariaDB: {followed.ware.done} transactions, topic equal to the table: {followed.await_equal_ware()} rows"
    )
    for resource in ("cdcsource/shop", f"cdcsource/{ware.NAME}", "pipeline/shop"):
        place.await_ready(resource, 120)
    for touch in TOUCHES:
        with followed.shop.connect() as database:
            database.execute(touch.encode())
        followed.await_equal(ORDER_LINES, LIVE_STOCK)
    say("views equal after a change of all rows of each table")
    for text in prove_topics(followed.example, followed.shop, followed.broker.bootstrap).values():
        say(text)
    place.apply(json.dumps(build_list(list(build_tiers(followed.example)))))
    place.await_ready("topics.kappa-platform.io/orders-with-tiers", 60)
    say(f"a new view from the topics alone has {followed.await_equal(ORDERS_WITH_TIERS)} rows")
    topics = {table: followed.example.name_table(table) for table in TABLES}
    found = {table: count_snapshot(topic, followed.broker.bootstrap) for table, topic in topics.items()}
    assert found == followed.snapshot, "the rows are read by one snapshot"
    assert count_snapshot(followed.ware_topic, followed.broker.bootstrap) == ware.ROWS
    if followed.shop.server.server.engine is POSTGRES:
        with followed.shop.connect() as database:
            assert database.execute(b"SELECT FROM pg_replication_slots").rowcount == 1
    assert SECONDS < 300 or min(hits.values()) > 0, "a long run has faults of every kind"


def strike(followed: Followed, writer: Writer, say: Callable[[str], None]) -> Counter[str]:
    """Let something die again and again for the given time, and return how often each kind did."""
    chance = random.Random(SEED)
    databases = dict.fromkeys((followed.shop.server.server, followed.ware.database.server))
    faults = ShopFaults(followed.place, followed.broker, chance, tuple(databases))
    hits: Counter[str] = Counter()
    deadline = time.monotonic() + SECONDS
    for kind in faults.rounds():
        time.sleep(chance.uniform(*_BETWEEN))
        left = deadline - time.monotonic()
        if left < SECONDS / 2:
            writer.wants_tiers.set()
        if left < 0:
            return hits
        hit, struck = faults.strike(kind)
        hits[kind.__name__] += hit
        say(f"{struck}; {writer.done} transactions")
    return hits


def build_tiers(example: Example) -> Iterator[dict[str, Any]]:
    """Yield the example's resources that need the new column, with a small pod."""
    small = {"driver": {"cpu": "100m", "memory": "1200Mi"}, "executors": {"count": 0}}
    for document in example.documents("tiers.yaml"):
        more = {"resources": small} if document["kind"] == "Pipeline" else {}
        yield {**document, "spec": {**document["spec"], **more}}


def count_snapshot(topic: str, bootstrap: str) -> int:
    """Return how many records of a topic are from a snapshot. The topics are too small for compaction."""
    values = (message.value() for message in read_topic(topic, bootstrap))
    return sum(json.loads(value)["op"] == "r" for value in values if value is not None)
