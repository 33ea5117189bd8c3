"""The outbox of a CDCSource: a table into which an application inserts events, in the transaction of the change that they are about."""

from typing import Annotated

from kappa_crds.databases import KeyColumn, TableName
from kappa_crds.model import Model, Rule

ExactTable = Annotated[
    TableName,
    Rule("!self.contains('*') && !self.contains('?')", "must be one table, without * and ?"),
]


class OutboxColumns(Model):
    """The columns of the outbox."""

    id: KeyColumn = "id"
    """Id of the event, unique. It becomes the header `id`, by which a consumer ignores an event that it has."""
    destination: KeyColumn = "aggregatetype"
    """What the event is about, such as order: the name of the topic is the topicPrefix, a dot and this value."""
    key: KeyColumn = "aggregateid"
    """Key of the record. Events of a key are in order."""
    type: KeyColumn = "type"
    """Kind of the event, such as OrderPlaced. It becomes the header `type`."""
    payload: KeyColumn = "payload"
    """Value of the record. JSON is written as it is."""


class Outbox(Model):
    """Events that an application writes into a table, in the same transaction as its other changes, become records of topics."""

    table: ExactTable
    """The table, as SCHEMA.TABLE, in MySQL as DATABASE.TABLE. spec.tables.include must have it. Rows may be deleted at once: only
    their insertion counts."""
    columns: OutboxColumns = OutboxColumns()
    """The columns of the table."""
