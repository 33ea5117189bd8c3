"""What a pipeline's user needs in a Kafka with ACLs: what `docs/how-to/kafka-permissions.md` names, and no more. What is missing is named."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection
from lab.acls import PROPERTIES, Right, grant
from lab.broker import Broker
from spark.conftest import wait_for
from spark.revisions import build_revision, source
from spark.topics import Topics

TOPIC, GROUP, TRANSACTION = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE = AclOperation.READ, AclOperation.WRITE
PASSWORD = "s3cr3t-pass"


LEAST_ONCE = (
    Right(TOPIC, "events", READ),
    Right(TOPIC, "out", WRITE),
    Right(TOPIC, "dead", WRITE),
    Right(GROUP, "kappa.test.delays", READ, is_prefix=True),
)
EXACTLY_ONCE = (
    *LEAST_ONCE,
    Right(TOPIC, "out", READ),
    Right(TRANSACTION, "kappa.test.delays.", WRITE, is_prefix=True),
)


class Secured:
    """A broker with TLS, a log-in and ACLs, and the pipelines of the one user that it has."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.topics = Topics(broker.bootstrap)
        (folder / "username").write_text("shop")
        (folder / "password").write_text(PASSWORD)
        self._kafka = KafkaConnection(
            bootstrap_servers=(broker.sasl_bootstrap,), security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512",
            ca_file=str(broker.authority), credentials_dir=str(folder),
        )  # fmt: skip
        self.names: dict[str, str] = {}

    def build(self, checkpoint: Path, delivery: str, rights: tuple[Right, ...]) -> Any:
        """A revision on topics of its own, and nothing allowed but these rights."""
        self.names = {name: self.topics.make(name) for name in ("events", "out", "dead")}
        grant(
            self.topics.bootstrap, "shop", [each.of(self.names.get(each.name, each.name)) for each in rights]
        )
        spec = {
            "sources": [source("events", "k BIGINT, v BIGINT")],
            "sinks": [
                {
                    "name": "out",
                    "from": "events",
                    "kafka": {"topic": "out", "key": ["k"], "delivery": delivery},
                }
            ],
            "deadLetter": "dead",
        }
        return build_revision(spec, checkpoint, self._kafka, topics=self.names)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(users={"shop": PASSWORD}, tls=True, properties=PROPERTIES) as running:
        yield running


@pytest.fixture(scope="module")
def secured(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Secured:
    return Secured(broker, tmp_path_factory.mktemp("secret"))


@pytest.mark.parametrize(("delivery", "rights"), [("AtLeastOnce", LEAST_ONCE), ("ExactlyOnce", EXACTLY_ONCE)])
def test_a_pipeline_needs_what_the_guide_names_and_no_more(
    run: Callable[..., Any],
    secured: Secured,
    checkpoint: Path,
    delivery: str,
    rights: tuple[Right, ...],
) -> None:
    topics, revision = secured.topics, secured.build(checkpoint, delivery, rights)
    names = secured.names
    topics.write(names["events"], [f'{{"k": {k}, "v": {k}}}' for k in range(100)] + ["{"])
    driver = run(revision)
    driver.wait_for("all is written", lambda p: p.lag == 0 and p.dead_lettered == 1)
    assert driver.stop().graceful
    topics.write(names["events"], ['{"k": 100, "v": 100}'])
    again = run(revision, 2)  # it finds the marks of the first one
    again.wait_for("the rest is written", lambda p: p.queries and p.queries[0].batch_id > 0)
    assert again.stop().graceful
    found = sorted(int(m.key() or b"") for m in topics.read_committed(names["out"]))
    assert found == list(range(101))
    assert len(topics.read_committed(names["dead"])) == 1
    assert topics.committed("kappa.test.delays", names["events"]) == topics.ends(names["events"])


MISSING = {
    "source": (Right(TOPIC, "events", READ), "events-"),
    "sink": (Right(TOPIC, "out", WRITE), "out-"),
    "dead letter": (Right(TOPIC, "dead", WRITE), "dead-"),
    "marks": (Right(TOPIC, "out", READ), "out-"),
    "group": (Right(GROUP, "kappa.test.delays", READ, is_prefix=True), "group kappa.test.delays."),
    "transaction": (
        Right(TRANSACTION, "kappa.test.delays.", WRITE, is_prefix=True),
        "transactional ids kappa.test.delays.",
    ),
}


@pytest.mark.parametrize("what", MISSING)
def test_a_missing_permission_is_named(
    run: Callable[..., Any], secured: Secured, checkpoint: Path, what: str
) -> None:
    missing, named = MISSING[what]
    rights = tuple(each for each in EXACTLY_ONCE if each != missing)
    if missing.kind is TOPIC:  # what may not even be described is not there, for Kafka tells no difference
        rights += (Right(TOPIC, missing.name, AclOperation.DESCRIBE),)
    revision = secured.build(checkpoint, "ExactlyOnce", rights)
    secured.topics.write(secured.names["events"], ['{"k": 1, "v": 1}', "{"])
    error = run(revision).failure()
    assert error.reason is Reason.AUTHORIZATION_FAILED, error.message
    assert named in error.message, error.message


def test_without_its_group_a_pipeline_works_and_reports_it(
    run: Callable[..., Any], secured: Secured, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    revision = secured.build(checkpoint, "AtLeastOnce", tuple(r for r in LEAST_ONCE if r.kind is not GROUP))
    secured.topics.write(secured.names["events"], ['{"k": 1, "v": 1}'])
    driver = run(revision)
    driver.wait_for("all is read", lambda p: p.lag == 0 and p.queries and p.queries[0].batch_id >= 0)
    wait_for("it is told", lambda: driver.driver.counts().group_commit_errors)
    assert driver.stop().graceful
    assert "GROUP_AUTHORIZATION_FAILED" in capsys.readouterr().out
