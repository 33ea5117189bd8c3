"""The end of a transaction of Kafka, waited for.

Brokers answer a commit or an abort first, and write its markers afterwards (KIP-98). Until then a
consumer of committed records does not get past the transaction.
"""

from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from lab.shell import wait_until

_SECONDS = 30


def end_transaction(producer: Producer, admin: AdminClient, *topics: str, commit: bool) -> None:
    """Commit or abort the transaction, and wait until no transaction is open in the topics; LabError after 30 s."""
    (producer.commit_transaction if commit else producer.abort_transaction)(_SECONDS)
    await_markers(admin, *topics)


def await_markers(admin: AdminClient, *topics: str) -> None:
    """Wait until no transaction is open in the topics; LabError after 30 s."""
    wait_until(lambda: not _is_any_open(admin, topics), f"the end of the transactions in {topics}", _SECONDS)


def _is_any_open(admin: AdminClient, topics: tuple[str, ...]) -> bool:
    """Return whether the last stable offset of a partition is below its end."""
    found = [
        TopicPartition(topic, partition)
        for topic in topics
        for partition in admin.list_topics(topic, _SECONDS).topics[topic].partitions
    ]
    wanted: dict[TopicPartition, OffsetSpec] = {each: OffsetSpec.latest() for each in found}  # type: ignore[no-untyped-call]
    stable, ends = (
        [each.result().offset for each in admin.list_offsets(wanted, isolation_level=isolation).values()]
        for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    )
    return stable != ends
