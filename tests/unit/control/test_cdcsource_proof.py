"""Proofs that the tables of a CDCSource equal their topics: when they are made, what they may reach, and what is reported."""

from typing import Any

import pytest

from fakes.cluster import Body
from fakes.context import build_secret
from kappa_crds.cdcsource_proof import ProofResult, TableFinding
from kappa_operator.cdcsource.proof import judge
from kappa_operator.engine.keys import ObjectRef
from unit.control.sources import CLUSTER, REF, SOURCE, Shop, dump, start

HOURLY = {"proof": {"schedule": "0 * * * *"}}
DIFFERENT = {
    "equal": 2, "differing": 12, "undecided": 1,
    "findings": (TableFinding(table="public.orders", differing=12, first=("changed (17): total",)),
                 TableFinding(table="public.items", undecided=1, message="the connector is behind")),
}  # fmt: skip


def condition(shop: Shop, kind: str = "Proven") -> tuple[str, str, str]:
    return shop.operator.get_condition(SOURCE, kind)


def has_condition(shop: Shop) -> bool:
    return any(each["type"] == "Proven" for each in shop.get_status()["conditions"])


async def pass_hour(shop: Shop) -> None:
    await shop.run(3700)


async def test_the_first_proof_begins_when_the_rows_were_read() -> None:
    shop = Shop()
    shop.connect.is_long = True
    await shop.prepare(**HOURLY)
    await shop.run(60)
    assert (shop.proofs, has_condition(shop)) == ([], False)
    shop.connect.is_long = False
    await shop.run(10)
    status, reason, message = condition(shop)
    assert (status, reason) == ("True", "TablesEqual")
    assert message.startswith(
        "3 tables with 1,200 rows equal their topics, at position 0/1A2B of the log and later ("
    )
    assert condition(shop, "Ready")[0] == "True"
    assert shop.list_proof_pods() == []
    proof = shop.get_status()["proof"]
    assert (proof["last"]["rows"], len(proof["history"]), proof["work"]["state"]) == (1200, 1, "Done")
    assert proof["proven"] == proof["last"]["at"]


async def test_proofs_follow_the_schedule_and_one_that_was_missed_is_made_once() -> None:
    shop = await start(**HOURLY)
    await shop.run(300)
    assert len(shop.proofs) == 1
    await pass_hour(shop)
    assert len(shop.proofs) == 2
    shop.operator.clock.advance(5 * 3600)
    await shop.run(60)
    assert len(shop.proofs) == 3


async def test_the_last_five_proofs_are_kept() -> None:
    shop = await start(**HOURLY)
    for number in range(6):
        shop.proof = {"rows": number}
        shop.operator.clock.advance(3600)
        await shop.run(20)
    assert [each["rows"] for each in shop.get_status()["proof"]["history"]] == [5, 4, 3, 2, 1]


@pytest.mark.parametrize("schedule", ["0 0 31 2 *", "0 0 30 2 *"])
async def test_a_schedule_without_any_day_is_reported_once(schedule: str) -> None:
    shop = await start(proof={"schedule": schedule})
    await shop.run(600)
    assert len(shop.proofs) == 1
    status, reason, message = condition(shop)
    assert (status, reason) == ("Unknown", "InvalidSpec")
    assert "is not a valid cron expression" in message
    assert len(shop.operator.list_events("InvalidSpec")) == 1
    assert condition(shop, "Ready")[0] == "True"


async def test_a_changed_request_begins_a_proof_at_once() -> None:
    shop = await start(proof={})
    await pass_hour(shop)
    assert len(shop.proofs) == 1, "without a schedule there is the first one only"
    shop.write(proof={"request": "after the repair"})
    await shop.run(10)
    assert len(shop.proofs) == 2


async def test_rows_that_differ_are_named_and_reported_each_time() -> None:
    shop = Shop()
    shop.proof = DIFFERENT
    await shop.prepare(**HOURLY)
    await shop.run()
    status, reason, message = condition(shop)
    assert (status, reason) == ("False", "RowsDiffer")
    assert message.startswith("12 rows differ, at position 0/1A2B of the log and later (")
    assert message.endswith("public.orders: 12 rows differ: changed (17): total")
    assert condition(shop, "Ready")[0] == "True", "the connector does what the spec declares"
    await pass_hour(shop)
    assert len(shop.proofs) == 2
    assert len(shop.operator.list_events("RowsDiffer")) == 2
    assert shop.get_status()["proof"]["last"]["findings"][0]["first"] == ["changed (17): total"]
    assert "findings" not in dump(
        [each for each in shop.get_status()["proof"]["history"] if each.get("findings")]
    )
    shop.proof = {}
    await pass_hour(shop)
    assert condition(shop)[:2] == ("True", "TablesEqual")


async def test_what_could_not_be_compared_is_not_proven() -> None:
    shop = Shop()
    shop.proof = {
        "equal": 2,
        "findings": (TableFinding(table="public.x", message="the table has no primary key"),),
    }
    await shop.prepare(**HOURLY)
    await shop.run()
    assert condition(shop) == ("Unknown", "ProofUndecided", "2 of 3 tables are equal; public.x: the table has no primary key")  # fmt: skip


async def test_a_proof_that_fails_is_made_again_after_growing_pauses() -> None:
    shop = Shop()
    shop.proof = {"problem": "db.example:5432/shop: nothing listens at this address"}
    await shop.prepare(**HOURLY)
    await shop.run(240)
    assert condition(shop) == ("Unknown", "ProofFailed", "db.example:5432/shop: nothing listens at this address")  # fmt: skip
    assert len(shop.proofs) == 1
    await shop.run(100)
    assert len(shop.proofs) == 2
    await shop.run(300)
    assert len(shop.proofs) == 2
    shop.proof = {}
    await shop.run(400)
    assert condition(shop)[0] == "True"
    assert shop.get_status()["proof"]["failures"] == 0


async def test_a_long_proof_that_fails_is_not_repeated_at_once() -> None:
    shop = Shop()
    shop.is_proof_slow = True
    await shop.prepare(**HOURLY)
    await shop.run(1800)
    shop.is_proof_slow = False
    shop.proof = {"problem": "the time of spec.proof.timeout was over"}
    await shop.run(200)
    assert len(shop.proofs) == 1


async def test_there_is_one_proof_at_a_time_and_checks_go_on_meanwhile() -> None:
    shop = Shop()
    shop.is_proof_slow = True
    await shop.prepare(proof={"schedule": "* * * * *", "timeout": "2h"})
    await shop.run(1000)
    assert shop.most_proofs == 1
    assert len(shop.requests) >= 3
    assert not has_condition(shop)
    (pod,) = shop.list_proof_pods()
    assert pod["spec"]["activeDeadlineSeconds"] == 2 * 3600 + 60


async def test_a_pod_that_never_starts_is_given_up() -> None:
    shop = Shop()
    shop.is_proof_slow = True
    await shop.prepare(proof={"timeout": "10m"})
    await shop.run(1000)
    assert condition(shop)[1] == "ProofFailed"
    assert "did not end within" in condition(shop)[2]


async def test_changed_settings_begin_the_proof_again() -> None:
    shop = Shop()
    shop.is_proof_slow = True
    await shop.prepare(**HOURLY)
    await shop.run(30)
    shop.write(**HOURLY, tables={"include": ["public.orders"]})
    shop.is_proof_slow = False
    await shop.run(10)
    assert [each.include for each in shop.proofs][-1] == ("public.orders",)
    assert condition(shop)[0] == "True"
    shop.write()
    await shop.run(10)
    assert not has_condition(shop), "without spec.proof nothing is claimed"


@pytest.mark.parametrize("state", ["Paused", "Stopped"])
async def test_a_source_at_rest_is_not_proven(state: str) -> None:
    shop = await start(**HOURLY, state=state)
    await pass_hour(shop)
    assert shop.proofs == []


async def test_lost_changes_withdraw_the_proof_until_the_next_one() -> None:
    shop = await start(proof={})
    assert condition(shop)[0] == "True"
    shop.write(proof={}, state="Stopped")
    await shop.run()
    shop.connect.database.slots.clear()
    await shop.run(320)
    assert condition(shop)[:2] == ("Unknown", "ChangesLost")
    shop.write(proof={}, snapshot={"request": "again"})
    await shop.run(30)
    assert condition(shop)[:2] == ("True", "TablesEqual")
    assert len(shop.proofs) == 2


SASL = {
    "sasl": {"credentialsSecretRef": {"name": "kafka-login"}},
    "tls": {"caSecretRef": {"name": "kafka-ca"}},
}


async def prepare_secured(shop: Shop, **spec: Any) -> None:
    """Have a Kafka cluster with TLS and a log-in."""
    await shop.prepare(**HOURLY)
    for name, content in {"kafka-login": {"username": "reader", "password": "hush"}, "kafka-ca": {"ca_crt": "-----BEGIN CERTIFICATE-----"}}.items():  # fmt: skip
        shop.operator.cluster.put(build_secret(name, **content))
    cluster = ObjectRef("kappa-platform.io/v1alpha1", *CLUSTER)
    body = shop.operator.cluster.read(cluster) or {}
    shop.operator.cluster.put({**body, "spec": {**body["spec"], **SASL, **spec}})


def find_files(pod: Body) -> dict[str, str]:
    return {
        item["path"]: volume["name"]
        for volume in pod["spec"]["volumes"] for source in volume.get("projected", {}).get("sources", ())
        for item in source["secret"]["items"] if volume["name"] == "kafka"
    }  # fmt: skip


async def test_the_pod_has_log_ins_as_files_and_reaches_database_and_brokers_only() -> None:
    shop = Shop()
    shop.is_proof_slow = True
    await prepare_secured(shop)
    await shop.run()
    (pod,) = shop.list_proof_pods()
    assert find_files(pod) == {"ca.crt": "kafka", "username": "kafka", "password": "kafka"}
    assert "hush" not in dump(pod)
    assert "geheim" not in dump(pod)
    assert pod["spec"]["automountServiceAccountToken"] is False
    container = pod["spec"]["containers"][0]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert "env" not in container
    policies = {
        each["metadata"]["name"]: each["spec"]
        for each in shop.operator.cluster.find("networking.k8s.io/v1", "NetworkPolicy")
    }
    spec = policies["orders-proof"]
    assert spec["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert spec["ingress"] == []
    ports = {port.get("port") for rule in spec["egress"] for port in rule["ports"]}
    assert ports == {53, 5432, 9092, None}, "pods of the namespace of kafka have ports of their own"


async def test_a_log_in_to_kafka_that_is_not_allowed_is_not_mounted() -> None:
    shop = Shop()
    await prepare_secured(shop)
    secret = build_secret("kafka-login", username="reader", password="hush")
    annotations = {"secrets.kappa-platform.io/kafka-operator": "*"}
    metadata = {**secret["metadata"], "annotations": annotations}
    login = ObjectRef("v1", "Secret", "shop", "kafka-login")
    shop.operator.cluster.remove(login)
    shop.operator.cluster.put({**secret, "metadata": metadata})
    await shop.run(70)
    assert (shop.proofs, shop.list_proof_pods()) == ([], [])
    assert condition(shop)[:2] == ("Unknown", "SecretNotAllowed")
    shop.operator.cluster.remove(login)
    shop.operator.cluster.put(build_secret("kafka-login", username="reader", password="hush"))
    await shop.run(70)
    assert condition(shop)[0] == "True"


def test_the_message_names_at_most_three_tables() -> None:
    findings = tuple(TableFinding(table=f"public.t{number}", differing=1) for number in range(5))
    status, _, message = judge(
        ProofResult(tables=5, differing=5, findings=findings, position="0/1", at="2026-01-01T00:00:00Z")
    )
    assert status == "False"
    assert message.endswith("public.t2: 1 rows differ; 2 more tables")


async def test_the_request_has_what_the_connector_was_told() -> None:
    shop = await start(
        **HOURLY,
        outbox={"table": "public.outbox"},
        decimals="Text",
        topicPrefix="prefix",
        keys=[{"table": "public.log", "columns": ["at"]}],
        columns={"exclude": ["public.c.password"], "mask": [{"columns": ["*.c.phone"], "length": 3}], "hash": [{"columns": ["*.c.email"], "salt": "some-salt"}]},
    )  # fmt: skip
    (request,) = shop.proofs
    assert request.altered == ("public.c.password", "*.c.phone", "*.c.email")
    assert (request.prefix, request.exclude, request.decimals) == ("prefix", ("public.outbox",), "string")
    assert (request.keys[0].table, request.keys[0].columns) == ("public.log", ("at",))
    assert request.kafka.bootstrap == ("kafka:9092",)


async def test_a_deleted_source_leaves_no_proof() -> None:
    shop = Shop()
    shop.is_proof_slow = True
    await shop.prepare(**HOURLY)
    await shop.run(20)
    shop.operator.cluster.remove(REF)
    await shop.run(20)
    assert shop.operator.get(SOURCE) is None
