"""The client of Kafka's transactions while the broker dies: no call waits without limit, and the next client writes."""

import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from demo.compare import read_topic
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.sinks.client import Client
from kappa_pipelines.sinks.commit_marker import CommitMarker
from kappa_pipelines.sinks.publisher import Publisher
from lab.broker import Broker

pytestmark = pytest.mark.clusterless
TOPIC = "once"
PUBLISHER = Publisher("log", TOPIC, "the-group", 1, "the-checkpoint", 1, "these views")
MARKER = CommitMarker(generation=1, written={"the-checkpoint/the-query": 1})
_SECONDS = 2.0


@pytest.fixture
def broker(shared_broker: Broker) -> Broker:
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(20)
    return shared_broker


def open_client(broker: Broker) -> Client:
    """Return a client with an open transaction."""
    client = Client(PUBLISHER, 0, KafkaConnection(bootstrap_servers=(broker.bootstrap,)))
    client.claim()
    client.producer.begin_transaction()
    return client


def test_a_commit_does_not_wait_without_limit_for_a_coordinator_that_is_gone(broker: Broker) -> None:
    client = open_client(broker)
    client.markers.read([(TOPIC, 0)])
    client.producer.produce(TOPIC, b"first")
    client.commit({(TOPIC, 0): MARKER})
    client.producer.begin_transaction()
    client.producer.produce(TOPIC, b"lost")
    client.producer.flush(20)
    broker.kill()
    began = time.monotonic()
    with pytest.raises(KafkaException) as raised:
        client.commit({(TOPIC, 0): MARKER}, _SECONDS)
    assert raised.value.args[0].name() == "_TIMED_OUT"
    client.close()
    assert time.monotonic() - began < _SECONDS + 60
    broker.start()
    later = open_client(broker)
    later.producer.produce(TOPIC, b"again")
    later.commit({(TOPIC, 0): MARKER})
    later.close()
    values = [message.value() for message in read_topic(TOPIC, broker.bootstrap)]
    assert values == [b"first", b"again"]
