"""How the bytes of a record's value become columns."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import ColumnName, Model, Rule
from kappa_crds.resource import CaSecretRef, SecretRef


class SchemaRegistry(Model):
    """A subject in a schema registry."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.caSecretRef) || self.url.startsWith('https://')",
            "caSecretRef is for a url that starts with https://; change the url, or remove caSecretRef",
        ),
    )
    url: Annotated[
        str,
        Field(min_length=8, max_length=1024),
        Rule(
            "self.matches('^https?://[^/@?# ]+(/[^?#@ ]*)?$')",
            "must be an http or https address without user, password and query, such as http://registry.kafka.svc:8081",
        ),
    ]
    """Address of the registry, with a path where it has one: `https://registry.example.com/apis/ccompat/v7`."""
    subject: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    """Subject with the versions of the schema; the topic's name in Kafka and `-value` where left out. Needed
    with `topics` and `topicPattern`."""
    version: Annotated[int | None, Field(ge=1)] = None
    """Version whose fields become the columns. Where left out it is the latest when the pipeline first
    starts, and stays that one. Records of all versions are read."""
    credentials_secret_ref: SecretRef | None = None
    """A Secret with the keys username and password, for HTTP basic authentication. It must name the host of
    the registry in its annotation secrets.kappa-platform.io/registry."""
    ca_secret_ref: CaSecretRef | None = None
    """The authorities that signed the registry's certificate, in a Secret with the same annotation."""


class JsonFormat(Model):
    """Values are JSON objects."""

    schema_: Annotated[str, Field(alias="schema", min_length=3, max_length=65_536)]
    """Columns and their types as Spark DDL: `carrier STRING, dep_delay DOUBLE, scheduled TIMESTAMP`."""
    timestamp_format: Annotated[str | None, Field(max_length=128)] = None
    """Pattern of timestamps, where they are not ISO 8601."""


class CsvFormat(Model):
    """Values are lines of CSV without header; columns by position."""

    schema_: Annotated[str, Field(alias="schema", min_length=3, max_length=65_536)]
    """Columns in the order of the fields, as Spark DDL: `faa STRING, lat DOUBLE`."""
    separator: Annotated[str, Field(min_length=1, max_length=4)] = ","
    """What separates fields."""
    null_value: Annotated[str, Field(max_length=32)] = ""
    """Text of a field that is NULL."""
    timestamp_format: Annotated[str | None, Field(max_length=128)] = None
    """Pattern of timestamps, where they are not ISO 8601."""


class RawType(StrEnum):
    """Types of a column with the value as it is."""

    BINARY = "BINARY"
    STRING = "STRING"


class RawFormat(Model):
    """Values are not parsed."""

    column: ColumnName = "value"
    """Column for the value."""
    type: RawType = RawType.BINARY
    """Bytes as they are, or text in UTF-8."""


class AvroFormat(Model):
    """Values are Avro: bare records of one schema, or records that name their schema in a registry."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.schema) != has(self.registry)",
            "set exactly one of schema (bare Avro records) and registry (records that start with a schema's id)",
        ),
    )
    schema_: Annotated[str | None, Field(alias="schema", min_length=3, max_length=262_144)] = None
    """The Avro schema in JSON that every value is written with; values have nothing before the record."""
    registry: SchemaRegistry | None = None
    """Where the schemas of values are, which start with a zero byte and the id of a schema in four bytes."""


class ProtobufFormat(Model):
    """Values are Protobuf: bare messages of one type, or messages that name their schema in a registry."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.schema) != has(self.registry)",
            "set exactly one of schema (bare messages) and registry (messages that start with a schema's id)",
        ),
        Rule(
            "!has(self.schema) || has(self.message)",
            "set message beside schema: the full name of the message that values are, such as plant.Reading",
        ),
    )
    schema_: Annotated[str | None, Field(alias="schema", min_length=3, max_length=262_144)] = None
    """The text of a .proto file; it may import files of google/protobuf. Values have nothing before the
    message."""
    message: Annotated[
        str | None,
        Field(min_length=1, max_length=512),
        Rule(
            "self.matches('^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*$')",
            "must be the full name of a message, such as plant.Reading",
        ),
    ] = None
    """Full name of the message whose fields become the columns, with its package: `plant.Reading`. With a
    registry it is the first one of the schema where left out."""
    registry: SchemaRegistry | None = None
    """Where the schemas of values are, which start with a zero byte, the id of a schema in four bytes and the
    place of the message in it."""


class Format(Model):
    """How the bytes of a record's value become columns."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.json), has(self.csv), has(self.avro), has(self.protobuf), has(self.raw)].exists_one(is, is)",
            "set exactly one format; the formats are: json, csv, avro, protobuf, raw",
        ),
    )
    json_: Annotated[JsonFormat | None, Field(alias="json")] = None
    """JSON objects."""
    csv: CsvFormat | None = None
    """Lines of CSV."""
    avro: AvroFormat | None = None
    """Avro records, with a schema given here or in a registry."""
    protobuf: ProtobufFormat | None = None
    """Protobuf messages, with a schema given here or in a registry. They are decoded in Python, a batch at a
    time."""
    raw: RawFormat | None = None
    """Bytes or text as they are, in one column."""

    @property
    def registry(self) -> SchemaRegistry | None:
        """Return the registry that values name their schemas in, if any."""
        found = self.avro or self.protobuf
        return found.registry if found is not None else None

    @property
    def schema_type(self) -> str:
        """Return the type of the schemas in that registry, in its words."""
        return "AVRO" if self.avro is not None else "PROTOBUF"
