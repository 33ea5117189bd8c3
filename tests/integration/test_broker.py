"""The broker that tests start for themselves: what other tests with a real Kafka take for granted."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from lab.broker import Broker
from lab.groups import read_committed
from lab.records import read_one, send_one

pytestmark = pytest.mark.clusterless


def sasl_admin(broker: Broker, mechanism: str, password: str) -> AdminClient:
    return AdminClient(
        {
            "bootstrap.servers": broker.sasl_bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
            "ssl.ca.location": str(broker.authority),
            "log_level": 0,
        }
    )


def test_a_test_broker_checks_passwords_and_keeps_its_data() -> None:
    with Broker(users={"alice": "right"}, tls=True) as broker:
        for mechanism in ("PLAIN", "SCRAM-SHA-512"):
            assert sasl_admin(broker, mechanism, "right").list_topics(timeout=10).brokers
            with pytest.raises(KafkaException):
                sasl_admin(broker, mechanism, "wrong").list_topics(timeout=2)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(20)
        assert read_committed(broker.bootstrap, "new", "kept", (0,)) == {}, "the first group of a new broker"
        send_one(broker.bootstrap, "kept", b"before the crash")
        broker.kill()
        broker.start()
        assert read_one(broker.bootstrap, "kept") == b"before the crash"
