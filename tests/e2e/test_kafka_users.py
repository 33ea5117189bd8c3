"""A pipeline whose driver and executor log in to a Kafka with ACLs as the user that the operator created for it."""

import base64
import json
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from e2e.place import Place
from integration.test_pipeline_users import PASSWORD, USER_RIGHTS, try_to_write
from kappa_crds.pipeline_status import KafkaUser
from lab import network
from lab.acls import PROPERTIES, Right, grant
from lab.broker import Broker
from lab.shell import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

_DESCRIBE = Right(ResourceType.TOPIC, "*", AclOperation.DESCRIBE)


@pytest.fixture
def broker(platform: None) -> Iterator[Broker]:
    """A Kafka that pods reach, where the operator may create users and describe topics."""
    users = {"operator": PASSWORD}
    with Broker(users=users, properties=PROPERTIES, address=network.NODE_IP) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topics = [NewTopic(name, 2, 1) for name in ("events", "copied", "payroll")]
        for future in admin.create_topics(topics).values():
            future.result()
        grant(running.bootstrap, "operator", [*USER_RIGHTS, _DESCRIBE])
        yield running


def read_users(place: Place) -> list[KafkaUser]:
    return list(place.pipeline("copy").kafka_users)


def find_topics(broker: Broker, user: str) -> set[str]:
    """Return the topics on which a user has permissions."""
    every = AclBindingFilter(
        ResourceType.TOPIC, None, ResourcePatternType.ANY, f"User:{user}", None, AclOperation.ANY, AclPermissionType.ANY  # type: ignore[arg-type]
    )  # fmt: skip
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    return {each.name for each in admin.describe_acls(every).result(20)}


def list_users(broker: Broker) -> set[str]:
    """Return the users with a SCRAM password."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    described = admin.describe_user_scram_credentials()
    assert not isinstance(described, dict)
    return set(described.result(20))


def await_copy(broker: Broker, key: str) -> None:
    """Write a record to the source, and wait until it is in the sink."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("events", json.dumps({"k": key}))
    producer.flush(20)
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": f"test-{key}", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["copied"])

    def is_there() -> bool:
        message = consumer.poll(1.0)
        value = None if message is None else message.value()
        return value is not None and json.loads(value) == {"k": key}

    try:
        wait_until(is_there, f"record {key} is copied", seconds=120, every=0.0)
    finally:
        consumer.close()


def read_log_in(place: Place, broker: Broker, user: KafkaUser) -> dict[str, str]:
    """Return the log-in of the pipeline, as code in its driver could read it."""
    data = json.loads(place.kubectl("get", "secret", user.secret, "-o", "json"))["data"]
    text = {key: base64.b64decode(value).decode() for key, value in data.items()}
    return {
        "bootstrap.servers": broker.sasl_bootstrap, "security.protocol": "sasl_plaintext", "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": text["username"], "sasl.password": text["password"],
    }  # fmt: skip


def test_a_pipeline_runs_as_its_own_user_follows_a_rotation_and_leaves_nothing_in_kafka(
    broker: Broker,
) -> None:
    place = Place.create("users")
    place.apply(place.render("users.yaml", bootstrap=broker.sasl_bootstrap, password=PASSWORD))
    place.await_ready("pipeline/copy")
    (first,) = read_users(place)
    await_copy(broker, "one")
    assert find_topics(broker, first.name) == {"events", "copied"}
    assert try_to_write(read_log_in(place, broker, first), "payroll") == "TOPIC_AUTHORIZATION_FAILED"

    place.patch("kafkacluster/main", {"pipelineUsers": {"rotation": "2"}})
    place.await_pipeline(
        lambda status: [user.name for user in status.kafka_users] == [f"{first.name}.2"] and status.kafka_users[0].exact,
        "has another user only",
        name="copy",
    )  # fmt: skip
    await_copy(broker, "two")
    assert find_topics(broker, first.name) == set()
    assert list_users(broker) == {"operator", f"{first.name}.2"}

    place.kubectl("delete", "pipeline", "copy", "--timeout=110s")
    assert find_topics(broker, f"{first.name}.2") == set()
    assert list_users(broker) == {"operator"}
