"""What a pipeline writes: rows of a view as records of a topic."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import LIST_TYPE, ColumnName, Model, Rule, SqlName, TopicName


class OutputMode(StrEnum):
    """Which rows of a result are written at each batch (Spark's output modes)."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class Delivery(StrEnum):
    """What a reader of a sink's topic finds after a crash."""

    AT_LEAST_ONCE = "AtLeastOnce"
    EXACTLY_ONCE = "ExactlyOnce"


class Sink(Model):
    """A topic that a source's or view's rows are written to."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.mode == 'append' || has(self.key)",
            "a sink with mode update or complete needs a key, so that readers can tell which row is replaced",
        ),
        Rule(
            "!has(self.tombstones) || has(self.key)",
            "a sink with tombstones needs a key: a tombstone says which row is deleted by its key alone",
        ),
    )
    name: Annotated[SqlName, Field(description="Name of the sink; its progress is kept under this name.")]
    from_: Annotated[SqlName, Field(alias="from", description="The view or source whose rows are written.")]
    topic: Annotated[
        TopicName,
        Field(
            description="Name of a Topic resource in the namespace, or of a topic in Kafka where there is none."
        ),
    ]
    key: Annotated[
        tuple[ColumnName, ...] | None,
        Field(
            min_length=1,
            max_length=16,
            description="Columns of the record's key: one column as text, several as a JSON object.",
            json_schema_extra={LIST_TYPE: "set"},
        ),
    ] = None
    value: Annotated[
        tuple[ColumnName, ...] | None,
        Field(
            min_length=1,
            max_length=256,
            description="Columns of the value, a JSON object; all where left out.",
            json_schema_extra={LIST_TYPE: "set"},
        ),
    ] = None
    tombstones: Annotated[
        ColumnName | None,
        Field(
            description="BOOLEAN column that says which rows are written as tombstones: the key and no value. It is no"
            " column of the value, unless `value` names it."
        ),
    ] = None
    mode: Annotated[OutputMode, Field(description="append: final rows only; update: each changed row.")] = (
        OutputMode.APPEND
    )
    delivery: Annotated[
        Delivery,
        Field(
            description="AtLeastOnce: the rows of one batch may be written again after a crash. ExactlyOnce: a batch is written in"
            " Kafka's transactions, so whoever reads committed records alone finds each row once, and a driver that was taken over"
            " from writes nothing more; rows go through Python, and a record can be read once its batch was written."
        ),
    ] = Delivery.AT_LEAST_ONCE
