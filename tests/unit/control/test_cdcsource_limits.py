"""Large rows of a CDCSource: the limits of topics and of the memory of workers."""

from contextlib import nullcontext
from typing import Any

import pytest

from fakes.context import build_resource
from kappa_crds.cdcsource import CDC_SOURCE
from kappa_crds.kafkacluster import KAFKA_CLUSTER
from kappa_operator.cdcsource.limits import check_memory
from unit.control.sources import SOURCE, SPEC, start

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
