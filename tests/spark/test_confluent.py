"""Records as Confluent's own serializers write them, with their schemas in a real registry."""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from kappa_crds.format import SchemaRegistry
from kappa_crds.reasons import Reason
from kappa_crds.revision import RegistrySecrets
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.protobuf.compiler import compile_text
from kappa_pipelines.registry.client import RegistryClient
from kappa_pipelines.registry.subject import Reference, fetch_subject
from lab.schema_registry import RegistryServer
from spark.revisions import build_revision

pytestmark = pytest.mark.chaos
"""A registry takes its time to start. What it was found to answer is in `lab.registry`, which the other tests ask."""


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


def client(registry: RegistryServer) -> RegistryClient:
    return RegistryClient(SchemaRegistry(url=registry.url), RegistrySecrets())


UNIT = {"type": "enum", "name": "Unit", "namespace": "plant", "symbols": ["M", "KM"]}


def test_a_real_registry_is_understood(registry: RegistryServer) -> None:
    """What the tests of the client ask its double, asked a real registry."""
    registry.register("unit", UNIT)
    refer = [{"name": "plant.Unit", "subject": "unit", "version": 1}]
    field = {"name": "unit", "type": "plant.Unit"}
    reading = {"type": "record", "name": "Reading", "namespace": "plant", "fields": [field]}
    more = {"name": "n", "type": "int", "default": 0}
    first = registry.register("readings-value", reading, references=refer)
    second = registry.register("readings-value", {**reading, "fields": [field, more]}, references=refer)
    found = fetch_subject(client(registry), "readings-value", None, (first, 4711), "AVRO")
    assert [(each.version, each.id) for each in found.versions] == [(1, first), (2, second)]
    assert (found.reader.version, found.unknown) == (2, (4711,))
    (reference,) = found.reader.references
    assert reference.name == "plant.Unit"
    assert '"KM"' in reference.text

    registry.delete("readings-value", 2)
    found = fetch_subject(client(registry), "readings-value", None, (), "AVRO")
    assert [each.id for each in found.versions] == [first, second]
    assert found.reader.version == 1

    for subject, version, words in (
        ("nobody-value", None, "has no subject 'nobody-value'"),
        ("readings-value", 7, "no version 7 of subject 'readings-value', it has: 1, 2"),
    ):
        with pytest.raises(UnavailableError, match=words) as raised:
            fetch_subject(client(registry), subject, version, (), "AVRO")
        assert raised.value.reason is Reason.SCHEMA_NOT_FOUND


READING = {
    "type": "record",
    "name": "Reading",
    "namespace": "plant",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "value", "type": ["null", "double"], "default": None},
    ],
}
PROTO = """
syntax = "proto3";
package plant;
import "google/protobuf/timestamp.proto";
import "plant/unit.proto";
message Other { int32 n = 1; }
message Reading { string sensor = 1; google.protobuf.Timestamp at = 2; optional double value = 3; Unit unit = 4; }
"""
UNIT_PROTO = 'syntax = "proto3"; package plant; enum Unit { M = 0; KM = 1; }'
AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=dt.UTC)


def test_records_of_confluents_serializers_become_rows(
    run: Any, broker: Any, topics: Any, checkpoint: Path, registry: RegistryServer
) -> None:
    names = {name: topics.make(name, 1) for name in ("avro", "proto", "rows", "dead")}
    schemas = SchemaRegistryClient({"url": registry.url})
    avro = AvroSerializer(schemas, json.dumps(READING))
    values = [{"sensor": "a", "at": AT, "value": 1.5}, {"sensor": "b", "at": AT, "value": None}]
    topics.write(names["avro"], [serialize(avro, names["avro"], value) for value in values])
    message = build_message()
    proto = ProtobufSerializer(message, schemas)
    made = [message(sensor="c", value=2.5, unit=1), message(sensor="d")]
    for each in made:
        each.at.FromDatetime(AT)
    topics.write(names["proto"], [serialize(proto, names["proto"], value) for value in made])

    formats = {"avro": {"registry": {"url": registry.url}}, "proto": {"registry": {"url": registry.url}}}
    sources = [
        {"name": "avro", "topic": "avro", "format": {"avro": formats["avro"]}},
        {
            "name": "proto",
            "topic": "proto",
            "format": {"protobuf": {**formats["proto"], "message": "plant.Reading"}},
        },
    ]
    both = "SELECT *, NULL AS unit FROM avro UNION ALL SELECT sensor, at, value, unit FROM proto"
    spec = {
        "sources": sources,
        "views": [{"name": "rows", "sql": both}],
        "sinks": [{"name": "rows", "from": "rows", "kafka": {"topic": "rows"}}],
        "deadLetter": "dead",
    }
    driver = run(build_revision(spec, checkpoint, broker.bootstrap, topics=names))
    driver.wait_for_records(4)
    assert driver.stop().graceful
    at = "2026-01-02T03:04:05.678000Z"
    assert sorted(topics.values(names["rows"]), key=lambda row: row["sensor"]) == [
        {"sensor": "a", "at": at, "value": 1.5, "unit": None},
        {"sensor": "b", "at": at, "value": None, "unit": None},
        {"sensor": "c", "at": at, "value": 2.5, "unit": "KM"},
        {"sensor": "d", "at": at, "value": None, "unit": "M"},
    ]
    assert topics.read(names["dead"]) == []


def serialize(serializer: Any, topic: str, value: Any) -> bytes:
    written: bytes = serializer(value, SerializationContext(topic, MessageField.VALUE))
    return written


def build_message() -> Any:
    """Return the class of plant.Reading, as protoc's own output has it."""
    compiled = FileDescriptorSet.FromString(
        compile_text("test", PROTO, (Reference("plant/unit.proto", UNIT_PROTO),))
    )
    pool = DescriptorPool()
    for file in compiled.file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("plant.Reading"))
