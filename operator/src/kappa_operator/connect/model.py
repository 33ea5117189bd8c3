"""How Kafka Connect is reached, and what it answers, as far as the operator uses it. Fields that it has besides are ignored."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

RUNNING, PAUSED, STOPPED, FAILED = "RUNNING", "PAUSED", "STOPPED", "FAILED"
"""States of connectors and tasks. Others are UNASSIGNED, RESTARTING and DESTROYED."""
_NAME = Field(max_length=512)


@dataclass(frozen=True, slots=True)
class ConnectAccess:
    """How the operator reaches the REST API of Kafka Connect. Certificates and the key are PEM texts.

    `ca` None trusts the authorities of the image. `certificate` and `key` are for mutual TLS, `username` and `password` for basic
    authentication.
    """

    url: str
    ca: str | None
    certificate: str | None
    key: str | None = field(repr=False)
    username: str | None = None
    password: str | None = field(default=None, repr=False)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ConnectInfo(_Answer):
    """A worker: its version, and the id of its Kafka cluster."""

    version: str = _NAME
    kafka_cluster_id: str = Field(default="", max_length=512)


class Plugin(_Answer):
    """A class that workers have: `type` is source, sink, converter or another kind."""

    name: str = Field(alias="class", max_length=512)
    type: str = Field(default="", max_length=64)
    version: str | None = Field(default=None, max_length=128)


class TaskStatus(_Answer):
    """A task. `trace` is the stack trace of one that failed, which may have text of the database."""

    id: int
    state: str = Field(max_length=64)
    worker_id: str = Field(default="", max_length=512)
    trace: str = ""


class ConnectorState(_Answer):
    """The connector itself, which starts the tasks."""

    state: str = Field(max_length=64)
    trace: str = ""


class ConnectorStatus(_Answer):
    """A connector and its tasks."""

    connector: ConnectorState
    tasks: tuple[TaskStatus, ...] = ()


class OffsetEntry(_Answer):
    """A position in a source, by the part of the source that it belongs to. None where there is none."""

    partition: dict[str, Any] | None = None
    offset: dict[str, Any] | None = None


class ConnectorOffsets(_Answer):
    """The positions of a connector."""

    offsets: tuple[OffsetEntry, ...] = ()


class _Value(_Answer):
    name: str = _NAME
    errors: tuple[str, ...] = ()


class _Validated(_Answer):
    value: _Value | None = None
    """None where a connector declares a property and does not validate it, as that of Debezium for MySQL does."""


class Validation(_Answer):
    """What Kafka Connect, and the connector itself, have against a configuration."""

    configs: tuple[_Validated, ...] = ()

    @property
    def refused(self) -> tuple[str, ...]:
        """Return the names of the properties that have errors. The texts are left out: they may be those of the database."""
        return tuple(each.name for each in (entry.value for entry in self.configs) if each and each.errors)
