"""One record there and back, to see that a Kafka works."""

from confluent_kafka import Consumer, Producer


def send_one(bootstrap: str, topic: str, value: bytes) -> None:
    """Write a record and wait until Kafka has it."""
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def read_one(bootstrap: str, topic: str) -> bytes | None:
    """Return the value of the first record that comes within 30 s."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "lab", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe([topic])
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()
