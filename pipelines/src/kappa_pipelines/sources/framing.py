"""Values that name the schema they were written with.

Confluent's wire format: a zero byte and the schema's id in four bytes (big-endian), then the record. Source: Confluent
Schema Registry, "Formats, Serializers, and Deserializers: Wire format".
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as f

from kappa_pipelines.failures.classify import UNKNOWN_SCHEMA
from kappa_pipelines.registry.subject import Subject
from kappa_pipelines.sources.values import explain_absent

HEADER_BYTES = 5


@dataclass(frozen=True)
class Framed:
    """Common to formats of such values: which ids are known, and how an unknown id is reported."""

    subject: Subject

    def is_unknown(self) -> Column:
        """Return whether a value has an id that was not looked up in the registry yet."""
        known = [*(each.id for each in self.subject.versions), *self.subject.unknown]
        return _is_framed() & ~get_header().isin([write_header(id_) for id_ in known])

    def alarm(self) -> Column:
        """Return an expression that fails the query and reports the id."""
        return f.raise_error(f.concat(f.lit(f"{UNKNOWN_SCHEMA}: "), f.hex(get_header())))

    def explain_frame(self, otherwise: Column) -> Column:
        """Return why a value has no id of the subject, or `otherwise` where it has one."""
        known = [write_header(each.id) for each in self.subject.versions]
        start = f.hex(f.substring("value", 1, 1))
        unknown = f"schema id %d is no version of subject {self.subject.name} in the registry"
        return explain_absent(
            f.when(f.length("value") < HEADER_BYTES, _describe_short())
            .when(
                ~_is_framed(),
                f.format_string("value starts with byte %s, and one with a schema id starts with 00", start),
            )
            .when(get_header().isin(known), otherwise)
            .otherwise(f.format_string(unknown, read_id()))
        )


def read_id() -> Column:
    """Return the schema id in a value."""
    return f.conv(f.hex(f.substring("value", 2, 4)), 16, 10).cast("bigint")


def write_header(id_: int) -> bytes:
    """Return the header of a record of the schema with this id."""
    return b"\0" + id_.to_bytes(4, "big")


def get_header() -> Column:
    """Return the header of a value, which names its schema."""
    return f.substring("value", 1, HEADER_BYTES)


def get_payload() -> Column:
    """Return the bytes of a value after its header."""
    return f.expr(f"substring(value, {HEADER_BYTES + 1})")


def _is_framed() -> Column:
    return (f.length("value") >= HEADER_BYTES) & (f.substring("value", 1, 1) == f.lit(b"\0"))


def _describe_short() -> Column:
    return f.format_string(
        f"value has %d bytes, and the schema id that it should start with takes {HEADER_BYTES}",
        f.length("value"),
    )
