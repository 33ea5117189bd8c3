"""The program of the pod that proves tables, with a real PostgreSQL and a broker with TLS, log-in and ACLs: what it may do, and no more."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from integration.brokers import TLS_USERS
from kappa_crds.cdcsource_proof import ProofResult
from kappa_operator.cdc.proof_work import KafkaServers, ProofRequest
from lab.acls import Right, grant
from lab.broker import Broker
from lab.postgres import DATABASE, USER, Postgres

pytestmark = pytest.mark.clusterless

PASSWORD = TLS_USERS["reader"]
READ = Right(ResourceType.TOPIC, "shop.", AclOperation.READ, is_prefix=True)


@pytest.fixture(scope="module")
def lab(tls_broker: Broker) -> Iterator[tuple[Postgres, Broker]]:
    broker = tls_broker
    with Postgres() as database:
        database.execute("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
        database.execute("INSERT INTO orders VALUES (1, 'tea'), (2, 'milk')")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("shop.public.orders", 2, 1)])["shop.public.orders"].result(30)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number, item in {1: "tea", 2: "milk"}.items():
            source = {
                "name": "shop",
                "schema": "public",
                "table": "orders",
                "snapshot": "true",
                "lsn": 1,
                "txId": 1,
            }
            event = {"op": "r", "before": None, "after": {"id": number, "item": item}, "source": source}
            producer.produce("shop.public.orders", key=json.dumps({"id": number}), value=json.dumps(event))
        producer.flush()
        yield database, broker


def prove(lab: tuple[Postgres, Broker], folder: Path, password: str = PASSWORD, **fields: Any) -> ProofResult:
    """Run the program as the pod does, and return its answer. No secret is printed."""
    database, broker = lab
    login, kafka = folder / "login", folder / "kafka"
    login.mkdir()
    kafka.mkdir()
    files = {
        login / "username": USER, login / "password": "unused", kafka / "username": "reader", kafka / "password": password,
        kafka / "ca.crt": broker.authority.read_text(),
    }  # fmt: skip
    for file, text in files.items():
        file.write_text(text)
    servers = KafkaServers(bootstrap=(broker.sasl_bootstrap,), protocol="sasl_ssl", mechanism="SCRAM-SHA-512")
    request = ProofRequest(
        host="127.0.0.1", port=database.port, database=DATABASE, tls=False, publication="none", slot="none", prefix="shop",
        wait=3, seconds=60, kafka=servers, **{"include": ("public.*",), **fields},
    )  # fmt: skip
    (folder / "request.json").write_text(request.model_dump_json(by_alias=True))
    arguments = [str(folder / "request.json"), str(login), str(kafka), str(folder / "result")]
    command = [sys.executable, "-m", "kappa_operator.cdc.prover", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    answer = (folder / "result").read_text()
    assert password not in done.stdout + done.stderr + answer
    return ProofResult.model_validate_json(answer)


def test_reading_the_topics_of_the_tables_is_enough(lab: tuple[Postgres, Broker], tmp_path: Path) -> None:
    grant(lab[1].bootstrap, "reader", [READ])
    result = prove(lab, tmp_path)
    assert (result.problem, result.tables, result.equal, result.rows) == ("", 1, 1, 2), result


def test_a_permission_that_is_missing_is_named(lab: tuple[Postgres, Broker], tmp_path: Path) -> None:
    grant(lab[1].bootstrap, "reader", [])
    result = prove(lab, tmp_path)
    assert not result.is_equal
    assert "shop.public.orders" in result.problem or "authorization" in result.problem.lower(), result


def test_a_wrong_password_and_a_wrong_name_are_explained(
    lab: tuple[Postgres, Broker], tmp_path: Path
) -> None:
    (tmp_path / "wrong").mkdir()
    result = prove(lab, tmp_path / "wrong", password="wrong-password")
    assert "Authentication failed" in result.problem, result
    (tmp_path / "none").mkdir()
    result = prove(lab, tmp_path / "none", include=("public.none",))
    assert result.problem == "no table matches spec.tables and spec.proof.tables"
