"""CDCSources: from a manifest to a connector, and what is reported where something is missing, fails or is lost."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from fakes.connect import FakeConnector
from fakes.context import build_resource, build_secret
from kappa_crds import API_VERSION
from kappa_operator.cdc.findings import Severity
from kappa_operator.cdc.work import FoundProblem
from kappa_operator.cdcsource.peers import find_database_peers
from kappa_operator.engine.keys import ObjectRef
from unit.control.connect_life import settle as settle_workers
from unit.control.connect_life import start as start_workers
from unit.control.sources import CLUSTER, LOGIN, REF, SECRET, SETTINGS, SOURCE, SPEC, Shop, dump, start

FINDING = FoundProblem(
    severity=Severity.ERROR, rule="wal-level", subject="wal_level", message="wal_level is replica, not logical.",
    statement="ALTER SYSTEM SET wal_level = 'logical';",
)  # fmt: skip
BAD = {"errors": 2, "findings": (FINDING,)}


def condition(shop: Shop, kind: str = "Ready") -> tuple[str, str, str]:
    return shop.operator.get_condition(SOURCE, kind)


async def test_a_source_becomes_a_connector_that_runs() -> None:
    shop = await start()
    assert condition(shop)[:2] == ("True", "ConnectorRunning")
    assert condition(shop)[2] == "the changes of 3 tables are read"
    assert condition(shop, "DatabaseReady")[:2] == ("True", "DatabaseReady")
    assert condition(shop, "Snapshotting")[0] == "False"
    status = shop.get_status()
    assert (status["database"], status["connector"], status["topicPrefix"]) == (
        "postgresql://db.example:5432/shop", "orders", "orders",
    )  # fmt: skip
    assert shop.connect.connectors["orders"].config["database.dbname"] == "shop"
    assert (shop.connect.snapshots, shop.most_connectors) == (1, 1)
    assert shop.operator.cluster.find("v1", "Pod") == []


async def test_a_source_at_rest_writes_nothing() -> None:
    shop = await start()
    before = shop.operator.cluster.fuse.writes
    shop.operator.clock.advance(15)
    outcome = await shop.operator.reconcile(SOURCE)
    assert shop.operator.cluster.fuse.writes == before
    assert outcome.requeue_after == 10.0


async def test_a_check_that_is_over_is_not_looked_for() -> None:
    """Its pod is deleted before that is recorded, and only then the operator stops to read it."""
    shop = await start()
    assert shop.get_status()["work"]["state"] == "Done"
    assert shop.operator.cluster.find("v1", "Pod") == []


async def test_a_new_slot_is_known_soon_and_not_only_at_the_next_regular_check() -> None:
    shop = await start()
    await shop.run(30)
    checked = shop.get_status()["lastCheck"]
    assert shop.get_status()["slot"]["name"] == shop.connect.connectors["orders"].config["slot.name"]
    await shop.run(60)
    assert shop.get_status()["lastCheck"] == checked


async def test_the_workers_get_the_log_in_and_nothing_else_does() -> None:
    shop = await start()
    data = (shop.operator.cluster.read(SECRET) or {})["data"]
    assert {name: base64.b64decode(value) for name, value in data.items()} == {
        "orders.username": b"reader",
        "orders.password": b"geheim",
    }
    assert "geheim" not in dump([shop.get_status(), shop.connect.connectors, shop.operator.list_events()])
    owner = (shop.operator.cluster.read(SECRET) or {})["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("KafkaCluster", "main")


async def test_the_log_ins_of_other_sources_stay() -> None:
    shop = await start()
    shop.operator.cluster.patch(SECRET, data={"other.password": "eA=="})
    shop.operator.cluster.patch(
        LOGIN, data={"password": base64.b64encode(b"other").decode(), "username": "cmVhZGVy"}
    )
    await shop.run(90)
    data = (shop.operator.cluster.read(SECRET) or {})["data"]
    assert base64.b64decode(data["orders.password"]) == b"other"
    assert data["other.password"] == "eA=="
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert (shop.operator.cluster.read(SECRET) or {})["data"] == {"other.password": "eA=="}


async def test_a_changed_password_restarts_the_task_with_it() -> None:
    shop = await start()
    before = shop.connect.connectors["orders"].config["kappa.credentials"]
    shop.operator.cluster.patch(LOGIN, data={"password": base64.b64encode(b"other").decode()})
    await shop.run(90)
    assert shop.connect.connectors["orders"].config["kappa.credentials"] != before
    assert shop.connect.snapshots == 1
    assert condition(shop)[0] == "True"


def withdraw_consent(shop: Shop) -> None:
    shop.operator.cluster.remove(LOGIN)
    secret = build_secret("login", username="reader", password="geheim")
    metadata = {"name": "login", "namespace": "shop"}
    shop.operator.cluster.put({**secret, "metadata": metadata})


@pytest.mark.parametrize(
    ("break_it", "reason", "text"),
    [
        (lambda shop: shop.operator.cluster.remove(LOGIN), "SecretNotFound", "create it"),
        (withdraw_consent, "SecretNotAllowed", "secrets.kappa-platform.io/database=db.example:5432"),
        (lambda shop: shop.set_connect(failure="no answer"), "ConnectNotReady", "not ready"),
        (lambda shop: shop.operator.cluster.remove(ObjectRef(API_VERSION, *CLUSTER)), "ClusterNotFound", "create it"),
        (lambda shop: setattr(shop.connect, "unreachable", True), "ConnectUnavailable", "does not answer"),
    ],
    ids=["no Secret", "no consent", "no Connect", "no cluster", "Connect is away"],
)  # fmt: skip
async def test_what_is_missing_is_reported_with_its_remedy(break_it: Any, reason: str, text: str) -> None:
    shop = Shop()
    await shop.prepare()
    break_it(shop)
    await shop.run()
    assert condition(shop)[1] == reason
    assert text in condition(shop)[2]
    assert shop.connect.connectors == {}
    assert shop.operator.cluster.find("v1", "Pod") == []


async def test_a_password_is_not_sent_without_tls_unless_the_installation_allows_it() -> None:
    shop = Shop()
    await shop.prepare()
    shop.operator = shop.operator.restart(replace(SETTINGS, allow_clear_text=("connect:8083", "kafka:9092")))
    await shop.run()
    assert condition(shop)[1] == "ClearTextCredentials"


async def test_a_finding_keeps_the_connector_from_being_created_and_shows_the_statement() -> None:
    shop = Shop()
    shop.answer = BAD
    await shop.prepare()
    await shop.run()
    assert shop.connect.connectors == {}
    for kind in ("Ready", "DatabaseReady"):
        status, reason, message = condition(shop, kind)
        assert (status, reason) == ("False", "DatabaseNotReady")
        assert "run: ALTER SYSTEM SET wal_level = 'logical'; (1 more errors" in message
    assert len(shop.operator.list_events("DatabaseNotReady")) >= 1
    shop.answer = {}
    await shop.run(60)
    assert condition(shop)[:2] == ("True", "ConnectorRunning")


async def test_a_later_finding_is_a_condition_and_stops_nothing() -> None:
    shop = await start()
    shop.answer = BAD
    await shop.run(320)
    assert condition(shop)[:2] == ("True", "ConnectorRunning")
    assert condition(shop, "DatabaseReady")[:2] == ("False", "DatabaseNotReady")
    assert shop.operator.list_events("DatabaseNotReady") != []


async def test_a_database_that_cannot_be_reached_is_checked_again() -> None:
    shop = Shop()
    shop.answer = {"problem": "db.example:5432/shop: nothing listens at this address"}
    await shop.prepare()
    await shop.run()
    assert condition(shop)[1:] == ("DatabaseUnreachable", "db.example:5432/shop: nothing listens at this address")  # fmt: skip
    shop.answer = {}
    await shop.run(120)
    assert condition(shop)[0] == "True"


async def test_the_pod_has_the_log_in_as_files_and_the_restricted_standard() -> None:
    shop = Shop()
    shop.is_slow = True
    await shop.prepare(postgresql={**SPEC["postgresql"], "tls": {"caSecretRef": {"name": "ca"}}})
    shop.operator.cluster.put(build_secret("ca", ca_crt="PEM"))
    await shop.run()
    (pod,) = shop.operator.cluster.find("v1", "Pod")
    container = pod["spec"]["containers"][0]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert "env" not in container
    assert "geheim" not in dump(pod)
    sources = pod["spec"]["volumes"][2]["projected"]["sources"]
    assert [each["secret"]["name"] for each in sources] == ["login", "ca"]
    assert sources[1]["secret"]["items"] == [{"key": "ca.crt", "path": "ca.crt"}]
    (policy,) = shop.operator.cluster.find("networking.k8s.io/v1", "NetworkPolicy")
    assert policy["spec"]["ingress"] == []
    assert {"protocol": "TCP", "port": 5432} in [
        port for rule in policy["spec"]["egress"] for port in rule["ports"]
    ]


async def test_a_check_that_hangs_is_given_up() -> None:
    shop = Shop()
    shop.is_slow = True
    await shop.prepare()
    await shop.run(310)
    assert condition(shop)[1] in ("DatabaseCheckFailed", "DatabaseUnreachable")
    assert "did not end within" in condition(shop)[2]


async def test_a_snapshot_is_reported_until_it_ends() -> None:
    shop = Shop()
    shop.connect.is_long = True
    await shop.prepare()
    await shop.run()
    assert condition(shop)[:2] == ("False", "ConnectorSnapshotting")
    assert condition(shop, "Snapshotting")[0] == "True"
    shop.connect.is_long = False
    await shop.run(10)
    assert condition(shop)[0] == "True"
    assert condition(shop, "Snapshotting")[0] == "False"


@pytest.mark.parametrize(
    ("state", "reason", "task"),
    [("Paused", "ConnectorPaused", "PAUSED"), ("Stopped", "ConnectorStopped", None)],
)
async def test_a_source_pauses_stops_and_goes_on(state: str, reason: str, task: str | None) -> None:
    shop = await start()
    shop.write(state=state)
    await shop.run()
    assert condition(shop)[:2] == ("False", reason)
    assert condition(shop, "Stalled")[0] == condition(shop, "Reconciling")[0] == "False"
    assert shop.connect.connectors["orders"].task == task
    shop.write()
    await shop.run()
    assert condition(shop)[0] == "True"
    assert shop.connect.snapshots == 1


async def test_a_source_that_begins_stopped_takes_no_snapshot() -> None:
    shop = await start(state="Stopped")
    assert shop.connect.connectors["orders"].state == "STOPPED"
    assert (shop.connect.snapshots, shop.connect.database.slots) == (0, {})


async def test_a_changed_spec_changes_the_connector_without_a_snapshot() -> None:
    shop = await start()
    shop.write(tables={"include": ["public.orders"]}, config={"max.batch.size": 4096})
    await shop.run()
    config = shop.connect.connectors["orders"].config
    assert (config["table.include.list"], config["max.batch.size"]) == (r"public\.orders", "4096")
    assert shop.connect.snapshots == 1
    assert shop.requests[-1].include == ("public.orders",), "the changed tables are checked at once"


async def test_a_connector_that_was_changed_or_deleted_by_hand_is_brought_back() -> None:
    shop = await start()
    shop.connect.connectors["orders"].config["table.include.list"] = "everything"
    await shop.run(15)
    assert shop.connect.connectors["orders"].config["table.include.list"] == r"public\.[^.]*"
    del shop.connect.connectors["orders"]
    await shop.run(15)
    assert condition(shop)[0] == "True"
    assert shop.connect.snapshots == 1, "its position is still there"


async def test_a_connector_of_somebody_else_is_left_alone() -> None:
    shop = Shop()
    shop.connect.connectors["orders"] = FakeConnector({"slot.name": "x", "publication.autocreate.mode": "disabled", "topic.prefix": "x"})  # fmt: skip
    await shop.prepare()
    await shop.run()
    assert condition(shop)[1] == "NameTaken"
    shop.operator.cluster.remove(REF)
    await shop.run()
    assert shop.operator.get(SOURCE) is None
    assert list(shop.connect.connectors) == ["orders"]


async def test_failed_tasks_are_restarted_after_growing_pauses() -> None:
    shop = await start()
    shop.connect.fails = "org.postgresql.util.PSQLException: FATAL: password authentication failed for user x"
    shop.connect.connectors["orders"].task = None
    shop.work()
    await shop.operator.reconcile(SOURCE)
    assert condition(shop)[1] == "ConnectorFailed"
    assert "the database refuses the user or the password; failure 1 in a row" in condition(shop)[2]
    assert "user x" not in condition(shop)[2]
    for _ in range(60):
        shop.operator.clock.advance(1)
        await shop.operator.reconcile(SOURCE)
        shop.work()
    restarts = shop.get_status()["restarts"]
    assert (restarts["total"], restarts["failures"]) == (2, 3)
    shop.connect.fails = ""
    await shop.run(120)
    assert condition(shop)[0] == "True"
    assert shop.connect.snapshots == 1
    await shop.run(700)
    assert shop.get_status()["restarts"]["failures"] == 0


async def test_a_dropped_publication_stops_the_connector_and_names_the_slot_to_drop() -> None:
    shop = await start()
    shop.connect.fails = (
        "org.apache.kafka.connect.errors.ConnectException: An exception occurred\n"
        'Caused by: org.postgresql.util.PSQLException: ERROR: publication "secret" does not exist\n'
        '  Where: slot "secret", output plugin "pgoutput", in the change callback, associated LSN 0/151F548'
    )
    shop.connect.connectors["orders"].task = None
    await shop.run(60)
    _, reason, message = condition(shop)
    assert reason == "ChangesLost"
    slot = shop.connect.connectors["orders"].config["slot.name"]
    assert f"SELECT pg_drop_replication_slot('{slot}');" in message
    assert "secret" not in message
    assert shop.connect.connectors["orders"].state == "STOPPED"
    assert (shop.get_status().get("restarts") or {}).get("total", 0) == 0


async def test_a_refused_configuration_names_its_properties() -> None:
    shop = Shop()
    shop.connect.refused = ("topic.prefix",)
    await shop.prepare()
    await shop.run()
    assert condition(shop)[1] == "ConnectorRefused"
    assert "topic.prefix" in condition(shop)[2]


async def test_workers_that_do_not_see_the_log_in_yet_are_awaited() -> None:
    shop = Shop()
    shop.connect.refused = ("database.hostname",)
    await shop.prepare()
    await shop.run()
    assert condition(shop)[1] == "ConnectorStarting"
    shop.connect.refused = ()
    await shop.run(10)
    assert condition(shop)[0] == "True"


def recreate_slot(shop: Shop) -> None:
    shop.connect.write_rows()
    shop.connect.database.slots[shop.slot] = shop.connect.database.end


def drop_slot(shop: Shop) -> None:
    shop.connect.database.slots.clear()


@pytest.mark.parametrize("lose", [recreate_slot, drop_slot], ids=["recreated", "dropped"])
async def test_lost_changes_stop_the_connector_until_a_new_snapshot_is_requested(lose: Any) -> None:
    shop = await start()
    shop.write(state="Stopped")
    await shop.run()
    lose(shop)
    shop.write()
    await shop.run()
    status, reason, message = condition(shop)
    assert (status, reason) == ("False", "ChangesLost")
    assert "spec.snapshot.request" in message
    assert shop.connect.connectors["orders"].state == "STOPPED"
    assert shop.connect.snapshots == 1
    await shop.run(600)
    assert condition(shop)[1] == "ChangesLost", "it does not heal by itself"
    shop.write(snapshot={"request": "after the loss"})
    await shop.run(20)
    assert condition(shop)[0] == "True"
    assert shop.connect.snapshots == 2
    assert shop.get_status().get("lost") is None


@pytest.mark.parametrize(
    ("lose", "text"),
    [
        (recreate_slot, "it was created again or moved"),
        (drop_slot, "does not exist any more"),
        (lambda shop: setattr(shop, "system", "sys-2"), "the database is another one"),
    ],
    ids=["recreated", "dropped", "another database"],
)
async def test_a_stopped_source_notices_its_lost_slot_by_the_check(lose: Any, text: str) -> None:
    shop = await start(state="Running")
    await shop.run(320)
    shop.write(state="Stopped")
    await shop.run()
    lose(shop)
    await shop.run(320)
    assert condition(shop)[1] == "ChangesLost"
    assert text in condition(shop)[2]


async def test_with_snapshots_when_needed_a_lost_slot_is_left_to_the_connector() -> None:
    shop = await start(snapshot={"mode": "WhenNeeded"})
    await shop.run(320)
    shop.write(snapshot={"mode": "WhenNeeded"}, state="Stopped")
    await shop.run()
    recreate_slot(shop)
    await shop.run(320)
    assert condition(shop)[1] == "ConnectorStopped"


async def test_a_slot_that_kept_everything_is_not_suspected() -> None:
    shop = await start()
    for _ in range(3):
        shop.connect.write_rows()
        await shop.run(320)
    assert condition(shop)[0] == "True"
    assert shop.get_status()["slot"]["retained"] == "10 B"


async def test_a_snapshot_is_taken_again_on_request_and_once_only() -> None:
    shop = await start()
    shop.write(snapshot={"request": "again"})
    await shop.run(10)
    assert shop.connect.snapshots == 2
    await shop.run(600)
    assert shop.connect.snapshots == 2
    assert shop.operator.list_events("SnapshotRequested") != []


async def test_the_databases_of_a_cluster_are_known_for_the_policy_of_its_workers() -> None:
    shop = await start()
    mysql = {"host": "my.example", "serverId": 7, "credentialsSecretRef": {"name": "login"}}
    spec: dict[str, Any] = {"clusterRef": "main", "mysql": mysql, "tables": {"include": ["shop.*"]}}
    shop.operator.cluster.put(build_resource("CDCSource", "another", **spec))
    shop.operator.cluster.put(build_resource("CDCSource", "elsewhere", **{**SPEC, "clusterRef": "other"}))
    shop.operator.cluster.put(build_resource("CDCSource", "broken", tables=3))
    peers = find_database_peers(shop.operator.cache, "shop", "main")
    assert peers == (("db.example", 5432), ("my.example", 3306))


async def test_the_workers_may_connect_to_the_databases_of_sources_and_no_others() -> None:
    operator = await settle_workers(start_workers())
    policy = ObjectRef("networking.k8s.io/v1", "NetworkPolicy", "shop", "main-connect")

    def list_ports() -> set[int]:
        rules = (operator.cluster.read(policy) or {})["spec"]["egress"]
        return {port["port"] for rule in rules for port in rule["ports"] if "port" in port}

    assert 5432 not in list_ports()
    operator.cluster.put(build_resource("CDCSource", "orders", **SPEC))
    operator = await operator.settle(CLUSTER)
    assert 5432 in list_ports()
    operator.cluster.remove(REF)
    operator = await operator.settle(CLUSTER)
    assert 5432 not in list_ports()
