"""What a pipeline writes: the rows of a view or source, to one sink of one kind."""

from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from kappa_crds.model import UNIQUE, ColumnName, Model, Rule, SqlName, TopicName


class OutputMode(StrEnum):
    """Rows of a result that each batch writes (Spark's output modes)."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class Delivery(StrEnum):
    """Guarantee for readers of a sink after a crash."""

    AT_LEAST_ONCE = "AtLeastOnce"
    EXACTLY_ONCE = "ExactlyOnce"


class KafkaSink(Model):
    """Rows as records of a topic."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.tombstones) || has(self.key)",
            "a sink with tombstones needs a key, because a tombstone names the deleted row by its key",
        ),
        Rule(
            "!has(self.raw) || (!has(self.value) && !has(self.tombstones))",
            "raw is the whole value, and NULL in it is a tombstone; leave out value and tombstones, or raw",
        ),
    )
    topic: TopicName
    """Name of a Topic resource in the namespace, or of a topic that exists in Kafka."""
    key: Annotated[tuple[ColumnName, ...] | None, Field(min_length=1, max_length=16), UNIQUE] = None
    """Columns of the record's key: one column as text, several as a JSON object."""
    value: Annotated[tuple[ColumnName, ...] | None, Field(min_length=1, max_length=256), UNIQUE] = None
    """Columns of the value, a JSON object. Default: all columns."""
    raw: ColumnName | None = None
    """STRING or BINARY column that is the value as it is, instead of a JSON object."""
    tombstones: ColumnName | None = None
    """BOOLEAN column that marks the rows to write as tombstones: a key without value. The column is part of
    the value only if `value` lists it."""
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    """AtLeastOnce: after a crash the rows of one batch may be written twice. ExactlyOnce: each batch is
    written in Kafka transactions. Readers of committed records find each row once, and a driver that was
    replaced writes nothing more. Readers see a record only after its batch is complete."""


_KINDS = ("kafka",)


class Sink(Model):
    """A destination for the rows of a source or view."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"[{', '.join(f'has(self.{kind})' for kind in _KINDS)}].exists_one(is, is)",
            f"set exactly one kind of sink; the kinds are: {', '.join(_KINDS)}",
        ),
        Rule(
            "!has(self.kafka) || self.mode == 'append' || has(self.kafka.key)",
            "a sink with mode update or complete needs a key, so that readers know which row is replaced",
        ),
    )
    name: SqlName
    """Name of the sink. Its progress is stored under this name."""
    from_: Annotated[SqlName, Field(alias="from")]
    """View or source whose rows are written."""
    mode: OutputMode = OutputMode.APPEND
    """append: write final rows only. update: write each changed row. complete: write all rows in each batch."""
    kafka: KafkaSink | None = None
    """Write records to a Kafka topic."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if sum(getattr(self, kind) is not None for kind in _KINDS) != 1:
            raise ValueError(self.rules[0].message)
        return self

    @property
    def is_table(self) -> bool:
        """Return whether rows are replaced or deleted by others, so that the last record of a key is its row."""
        return self.mode is not OutputMode.APPEND or self.target.tombstones is not None

    @property
    def target(self) -> KafkaSink:
        """Return the settings of the one kind that is set."""
        assert self.kafka is not None  # noqa: S101 - checked when the sink is parsed
        return self.kafka
