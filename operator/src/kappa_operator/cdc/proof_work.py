"""The request of the operator to a pod that compares tables with their topics. It has no secret: log-ins are mounted files."""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model
from kappa_operator.cdc.address import DatabaseKind

KAFKA_CA, KAFKA_CERTIFICATE, KAFKA_KEY = "ca.crt", "tls.crt", "tls.key"
KAFKA_USER, KAFKA_PASSWORD = "username", "password"
"""Files in the folder of the log-in to Kafka."""


class KafkaServers(Model):
    """How to reach Kafka. `mechanism` is that of SASL; empty for none."""

    bootstrap: tuple[str, ...]
    protocol: str
    mechanism: str = ""
    verify_hostname: bool = True


class TableKey(Model):
    """Columns of the key of events, where it is not the primary key of the tables."""

    table: str
    columns: tuple[str, ...]


class ProofRequest(Model):
    """What to compare. `include`, `only`, `exclude` and the tables of `keys` are patterns of tables; `altered` are those of columns.

    Tables that `include` matches are those of the source; of these, `only` chooses some, where it has patterns.

    `prefix` is what the names of the topics begin with. Columns that the connector leaves out or writes otherwise than they are, are not
    compared. `wait` is for a connector that is behind, for each table, and `seconds` for everything. `offsets` is the topic in which
    Kafka Connect stores positions, empty where it is not known.
    """

    kind: DatabaseKind = DatabaseKind.POSTGRESQL
    host: str
    port: int
    database: str
    tls: bool
    publication: str
    slot: str
    prefix: str
    include: tuple[str, ...]
    only: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keys: tuple[TableKey, ...] = ()
    altered: tuple[str, ...] = ()
    decimals: str = "precise"
    offsets: str = ""
    wait: Annotated[float, Field(gt=0)]
    seconds: Annotated[float, Field(gt=0)]
    kafka: KafkaServers
