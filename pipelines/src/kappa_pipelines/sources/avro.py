"""Avro records as columns: bare ones of one schema, and those that name the schema they were written with.

The plan has a case for each id of the subject. The columns are always those of the reader schema, by Avro's rules of schema resolution.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from kappa_pipelines.registry.subject import Subject
from kappa_pipelines.sources.avro_schema import (
    BODY,
    END,
    SENTINEL,
    build_envelope,
    decode,
    find_columns,
    is_record,
    read_avro,
)
from kappa_pipelines.sources.framing import Framed, get_header, get_payload, write_header
from kappa_pipelines.sources.values import WithoutTexts, check_names, explain_absent

_PADDING = bytes(1024)  # completes a truncated record


@dataclass(frozen=True, kw_only=True)
class AvroValues(WithoutTexts):
    """Values that are records of one schema, decoded into its columns. `reader` is that schema in JSON form."""

    schema: StructType
    reader: object

    def is_malformed(self, parsed: Column) -> Column:
        """Return whether a value is not exactly one record."""
        return ~parsed[END].eqNullSafe(f.lit(SENTINEL))

    def columns(self, parsed: Column) -> Column:
        """Return the struct of the columns in a decoded envelope."""
        return parsed[BODY] if is_record(self.reader) else f.struct(parsed[BODY].alias("value"))

    def decode(self, value: Column, writer: object) -> Column:
        """Return the envelope in a value that was written with this schema."""
        with_sentinel = f.concat(value, f.lit(SENTINEL))
        return decode(with_sentinel, build_envelope(writer), build_envelope(self.reader))

    def parse(self, *, alert: bool) -> Column:  # noqa: D102 - see Values
        return self.decode(f.col("value"), self.reader)

    def explain(self, parsed: Column, texts: Column) -> Column:  # noqa: D102 - see Values
        return explain_absent(_explain(f.col("value"), self.reader, "the declared schema"))


def _explain(value: Column, schema: object, name: str) -> Column:
    """Return why a value is not exactly one record of its schema."""
    envelope = build_envelope(schema, with_sentinel=False)
    exact, padded = (
        decode(each, envelope, envelope)[BODY].isNotNull()
        for each in (value, f.concat(value, f.lit(_PADDING)))
    )
    bytes_ = f.format_string(f"the %d bytes are no Avro record of {name}", f.length(value))
    return (
        f.when(exact, f.concat(bytes_, f.lit(": more bytes follow after the record")))
        .when(padded, f.concat(bytes_, f.lit(": they end before the record does")))
        .otherwise(bytes_)
    )


@dataclass(frozen=True)
class Written:
    """A schema that records are written with: its id and version in the subject."""

    id: int
    version: int
    schema: object


@dataclass(frozen=True, kw_only=True)
class FramedAvro(Framed, AvroValues):
    """Values that name their schema by its id. `written` are the schemas they may have, newest first."""

    written: tuple[Written, ...]

    def parse(self, *, alert: bool) -> Column:  # noqa: D102 - see Values
        parsed = _by_id([(each.id, self.decode(get_payload(), each.schema)) for each in self.written])
        return parsed.when(self.is_unknown(), self.alarm()) if alert else parsed

    def explain(self, parsed: Column, texts: Column) -> Column:  # noqa: D102 - see Values
        name = f"schema id %d (version %d of subject {self.subject.name})"
        wrong = [
            (each.id, _explain(get_payload(), each.schema, name % (each.id, each.version)))
            for each in self.written
        ]
        return self.explain_frame(_by_id(wrong))


def _by_id(cases: Sequence[tuple[int, Column]]) -> Column:
    """Return the case for the id of a value, NULL for another id."""
    (first, then), *rest = cases
    found = f.when(get_header() == f.lit(write_header(first)), then)
    for id_, then in rest:
        found = found.when(get_header() == f.lit(write_header(id_)), then)
    return found


def build_bare(source: str, text: str) -> AvroValues:
    """Return the format of bare records; SpecError if its schema is invalid. Needs an active Spark session."""
    where = f"source {source!r}"
    schema = read_avro(where, text)
    return AvroValues(schema=_find_columns(where, schema), reader=schema)


def build_framed(source: str, subject: Subject) -> FramedAvro:
    """Return the format of records that name their schema; SpecError if one is invalid. Needs an active Spark session."""
    by_id = {each.id: each for each in reversed(subject.versions)}
    written = []
    for each in by_id.values():
        where = f"source {source!r}: version {each.version} of subject {subject.name!r}"
        texts = tuple(reference.text for reference in each.references)
        written.append(Written(each.id, each.version, read_avro(where, each.text, texts)))
    reader = next(each.schema for each in written if each.id == subject.reader.id)
    where = f"source {source!r}: version {subject.reader.version} of subject {subject.name!r}"
    columns = _find_columns(where, reader)
    return FramedAvro(subject=subject, schema=columns, reader=reader, written=tuple(written))


def _find_columns(where: str, schema: object) -> StructType:
    columns = find_columns(where, schema)
    check_names(where, columns.names)
    return columns
