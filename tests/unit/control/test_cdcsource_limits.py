"""Large rows of a CDCSource: the limits of topics and of the memory of workers."""

from contextlib import nullcontext
from typing import Any

import pytest

from fakes.context import build_resource, build_secret
from kappa_crds.cdcsource import CDC_SOURCE
from kappa_crds.kafkacluster import KAFKA_CLUSTER
from kappa_operator.cdcsource.limits import check_memory
from kappa_operator.cdcsource.observe import observe_cdcsource
from kappa_operator.engine.keys import ObjectRef
from unit.control.sources import SOURCE, SPEC, Shop, start

TOO_LARGE = (
    "org.apache.kafka.common.errors.RecordTooLargeException: The request included a message larger than"
)


async def test_a_topic_that_refuses_a_large_record_gets_the_limit_of_the_spec() -> None:
    shop = await start(maxRecordSize="16Mi")
    kafka = shop.operator.brokers["kafka:9092"]
    for topic in ("orders.public.orders", "other.public.orders"):
        kafka.add(topic)
    shop.connect.connectors["orders"].task = "FAILED"
    shop.connect.connectors["orders"].trace = TOO_LARGE
    await shop.run(30)
    assert shop.operator.get_condition(SOURCE, "Ready")[0] == "True"
    configs = {name: topic.configs for name, topic in kafka.topics.items() if name.endswith("orders")}
    assert configs["orders.public.orders"] == {"max.message.bytes": str(16 * 2**20)}
    assert configs["other.public.orders"] == {}, "another prefix"
    assert shop.connect.connectors["orders"].restarts == 1


@pytest.mark.parametrize(
    ("spec", "limit"),
    [({}, "1048588"), ({"maxRecordSize": "16Mi"}, str(32 * 2**20))],
    ids=["no field", "higher"],
)
async def test_the_limit_of_a_topic_is_never_lowered_or_raised_without_being_asked(
    spec: dict[str, Any], limit: str
) -> None:
    shop = await start(**spec)
    kafka = shop.operator.brokers["kafka:9092"]
    kafka.add("orders.public.orders", configs={"max.message.bytes": limit})
    shop.connect.fails = TOO_LARGE
    shop.connect.connectors["orders"].task = None
    await shop.run(60)
    assert kafka.topics["orders.public.orders"].configs["max.message.bytes"] == limit
    _, reason, message = shop.operator.get_condition(SOURCE, "Ready")
    assert reason == "ConnectorFailed"
    assert "a row is larger than max.message.bytes of its topic" in message


WORKER = ObjectRef("v1", "Pod", "shop", "main-connect-1")
HOST = "main-connect-1.main-connect-pods.shop.svc:8443"
LARGE = "org.apache.kafka.common.errors.RecordTooLargeException: The message is 3200737 bytes when serialized which is larger than 1048576, which is"
TASK = "ExactlyOnceWorkerSourceTask{id=orders-0}"
FAILED = f"2026-01-01T10:00:00,000 ERROR [orders|task-0] {TASK} failed to send record to orders.public.TABLE:  (org.apache.kafka.connect.runtime.AbstractWorkerSourceTask)\n"
LARGER = "org.apache.kafka.common.errors.RecordTooLargeException: The message is 3200737 bytes when serialized which is larger than 1048576, which is the value of the max.request.size configuration.\n"
LOG = "".join((
    FAILED.replace("TABLE", "before"),
    LARGER,
    f"2026-01-01T10:00:00,000 INFO [orders|task-0] {TASK} Source task finished initialization and start (org.apache.kafka.connect.runtime.AbstractWorkerSourceTask)\n",
    FAILED.replace("TABLE", "aborted"),
    "org.apache.kafka.common.errors.TransactionAbortedException: Failing batch since transaction was aborted\n",
    FAILED.replace("TABLE", "notes"),
    LARGER,
    "2026-01-01T10:00:00,001 INFO [Producer clientId=connector-producer-orders-0] Transiting to abortable error state due to org.apache.kafka.common.errors.RecordTooLargeException: The message is\n",
    FAILED.replace("TABLE", "later"),
    LARGER,
))  # fmt: skip
"""As a worker of Kafka 4.3 has logged it: all records that follow in the transaction fail with the same error."""


async def fail_on_workers(trace: str, log: str | None, worker: str = HOST) -> Shop:
    """Let a task fail on a worker of the operator, with this log."""
    shop = await start()
    shop.operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"], connect={"workers": {}}))  # fmt: skip
    shop.operator.cluster.put(build_secret("main-connect-rest", **{"ca.crt": "c", "tls.crt": "c", "tls.key": "k"}))  # fmt: skip
    shop.set_connect(url="https://main-connect.shop.svc:8443", ready=2)
    if log is not None:
        shop.operator.cluster.logs[WORKER] = log
    shop.operator.brokers["kafka:9092"].add("orders.public.notes", configs={"max.message.bytes": "2097152"})
    connector = shop.connect.connectors["orders"]
    connector.task, connector.trace, connector.worker = "FAILED", trace, worker
    await shop.operator.settle(SOURCE)
    return shop


async def test_the_topic_of_a_record_that_is_too_large_is_found_in_the_log_of_the_worker() -> None:
    shop = await fail_on_workers(LARGE, LOG)
    _, reason, message = shop.operator.get_condition(SOURCE, "Ready")
    assert reason == "ConnectorFailed"
    assert message.startswith("a row of topic orders.public.notes is 3200737 bytes as a record, and at most 1048576 are allowed; set spec.maxRecordSize to 4Mi")  # fmt: skip
    assert "the log of the workers" not in message


async def test_a_transaction_that_a_failed_task_has_left_open_delays_nothing() -> None:
    """Kafka Connect reads no position until it times out, which the restart ends."""
    shop = await start()
    connector = shop.connect.connectors["orders"]
    connector.task, connector.trace, shop.connect.is_open = "FAILED", LARGE, True
    observed = await observe_cdcsource(shop.operator.context, SOURCE, ())
    assert observed is not None
    assert observed.connector is not None
    assert (observed.connector.offset, observed.problem) == (None, None)
    assert observed.connector.failures == (LARGE,)


async def test_a_topic_that_refuses_a_record_is_named_with_its_limit() -> None:
    shop = await fail_on_workers(TOO_LARGE, LOG.replace(LARGER, f"{TOO_LARGE}\n"))
    message = shop.operator.get_condition(SOURCE, "Ready")[2]
    assert message.startswith("a row of topic orders.public.notes is larger than max.message.bytes of its topic, 2097152; raise that")  # fmt: skip


@pytest.mark.parametrize(
    ("log", "worker"),
    [
        (None, HOST),
        ("", HOST),
        (LOG.replace("id=orders-0", "id=other-0"), HOST),
        (LOG.replace("orders.public.notes", "theirs.public.notes"), HOST),
        (LOG.replace(":  (org", " and all passwords:  (org"), HOST),
        (LOG, "10.0.0.7:8443"),
        (LOG, HOST.replace("main-connect-1", "../secrets/login?")),
        (LOG, HOST.replace("shop", "theirs")),
    ],
    ids=["no pod", "empty", "another source", "another prefix", "a text", "an address", "a path", "another namespace"],
)  # fmt: skip
async def test_without_a_log_of_the_operators_worker_the_message_says_where_the_topic_is(
    log: str | None, worker: str
) -> None:
    shop = await fail_on_workers(LARGE, log, worker)
    message = shop.operator.get_condition(SOURCE, "Ready")[2]
    assert message.startswith("a row is 3200737 bytes as a record")
    assert "the log of the workers has its topic, after: failed to send record to" in message


@pytest.mark.parametrize(("size", "is_enough"), [("51Mi", True), ("52Mi", False)])
def test_the_largest_record_has_to_fit_into_the_memory_of_workers(size: str, is_enough: bool) -> None:
    source = CDC_SOURCE.parse(build_resource("CDCSource", "orders", **SPEC, maxRecordSize=size))
    connect = {"workers": {"resources": {"memory": "512Mi"}}}
    cluster = KAFKA_CLUSTER.parse(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"], connect=connect))  # fmt: skip
    with (
        nullcontext()
        if is_enough
        else pytest.raises(ValueError, match=r"needs workers with 520 MiB of memory, and .* has 512 MiB")
    ):
        check_memory(source, cluster)
