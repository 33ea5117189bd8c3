"""Protobuf messages as columns: bare ones of one type, and those that name the schema they were written with.

This format is decoded in Python (ADR 9): an Arrow UDF decodes a batch of values at a time to a struct of the row and the error.
"""

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.protobuf.columns import BadSchemaError, check_columns
from kappa_pipelines.protobuf.compiler import compile_text
from kappa_pipelines.protobuf.decoder import ERROR, ROW, Plan, get_decoder
from kappa_pipelines.protobuf.indexes import FIRST, Indexes
from kappa_pipelines.protobuf.schema import Schema, list_messages, load_types
from kappa_pipelines.protobuf.versions import Version, find_version_conflict
from kappa_pipelines.registry.subject import Registered, Subject
from kappa_pipelines.sources.arrow import map_batches
from kappa_pipelines.sources.framing import Framed
from kappa_pipelines.sources.values import WithoutTexts, check_names

COST = (
    "runs Python for each batch of records: about 430,000 rows/s on two cores, where JSON, by a plan of Spark's own, has 410,000 and"
    " Avro 700,000 (docs/explanation/formats.md)"
)
"""A line of `kappa explain`."""


@dataclass(frozen=True)
class ProtobufValues(WithoutTexts):
    """Values that are messages of one type, which a plan decodes."""

    plan: Plan

    @property
    def schema(self) -> StructType:
        """Return the declared columns."""
        return self.plan.columns

    def is_malformed(self, parsed: Column) -> Column:
        """Return whether a value is not a message."""
        return parsed[ERROR].isNotNull()

    def columns(self, parsed: Column) -> Column:
        """Return the struct of the columns."""
        return parsed[ROW]

    def parse(self, *, alert: bool) -> Column:  # noqa: D102 - see Values
        plan = self.plan

        def decode(values: pa.Array) -> pa.Array:
            return get_decoder(plan).decode(values)

        return map_batches(decode, plan.result, f.col("value"))

    def explain(self, parsed: Column, texts: Column) -> Column:  # noqa: D102 - see Values
        return parsed[ERROR]


@dataclass(frozen=True)
class FramedProtobuf(Framed, ProtobufValues):
    """Values that name their schema by its id, and the message in it by indexes."""

    def parse(self, *, alert: bool) -> Column:  # noqa: D102 - see Values
        parsed = super().parse(alert=alert)
        return f.when(self.is_unknown(), self.alarm()).otherwise(parsed) if alert else parsed

    def explain(self, parsed: Column, texts: Column) -> Column:  # noqa: D102 - see Values
        return self.explain_frame(parsed[ERROR])

    @property
    def indexes(self) -> Indexes:
        """Return where the message is in the version whose fields are the columns."""
        found = list_messages(self.plan.schema.files)
        return next(indexes for indexes, name in found.items() if name == self.plan.schema.message)


def build_bare(source: str, text: str, message: str) -> ProtobufValues:
    """Return the format of bare messages; SpecError if the schema is invalid."""
    where = f"source {source!r}"
    files = compile_text(where, text)
    return ProtobufValues(Plan(_find_message(where, files, message)))


def build_framed(source: str, subject: Subject, message: str | None) -> FramedProtobuf:
    """Return the format of messages that name their schema; SpecError if one is invalid."""
    read = _compile_version(source, subject, subject.reader)
    where = f"source {source!r}: {_name_version(subject, subject.reader)}"
    schema = _find_message(where, read, message or list_messages(read).get(FIRST, "of any name"))
    by_id = {each.id: each for each in reversed(subject.versions)}
    versions = tuple(_build_version(source, subject, each, schema) for each in by_id.values())
    return FramedProtobuf(plan=Plan(schema, versions), subject=subject)


def _build_version(source: str, subject: Subject, registered: Registered, read: Schema) -> Version:
    files = _compile_version(source, subject, registered)
    name = f"schema id {registered.id} (version {registered.version} of subject {subject.name})"
    return Version(registered.id, name, files, find_version_conflict(files, read))


def _compile_version(source: str, subject: Subject, registered: Registered) -> bytes:
    where = f"source {source!r}: {_name_version(subject, registered)}"
    return compile_text(where, registered.text, registered.references)


def _name_version(subject: Subject, registered: Registered) -> str:
    return f"version {registered.version} of subject {subject.name!r}"


def _find_message(where: str, files: bytes, message: str) -> Schema:
    """Return a message of a schema, checked; SpecError where it is not there, or cannot become columns."""
    there = list_messages(files).values()
    if message not in there:
        raise SpecError(Reason.INVALID_SCHEMA, f"{where}: {_explain_absence(message, there)}")
    schema = Schema(files, message)
    descriptor = load_types(schema).descriptor
    try:
        check_columns(descriptor)
    except BadSchemaError as error:
        raise SpecError(
            Reason.INVALID_SCHEMA, f"{where}: the Protobuf schema cannot be used: {error}"
        ) from error
    check_names(where, [field.name for field in descriptor.fields])
    return schema


def _explain_absence(message: str, there: Collection[str]) -> str:
    names = ", ".join(there) or "none"
    return f"the Protobuf schema has no message {message}, it has: {names}; correct `message`"
