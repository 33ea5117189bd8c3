"""What is seen of Kafka, as frozen values that decisions and fakes share."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Self

from kappa_crds.permissions import Permission


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "(hidden)")
    return text


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A Kafka cluster as it answered. `topics` leaves Kafka's own (`__…`) out."""

    cluster_id: str
    brokers: int
    controller: int | None
    topics: int
    advertised: tuple[str, ...] = ()
    """The addresses of the brokers, as host:port. The text is theirs."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as Kafka shows it.

    `configs` are the values in effect, by name; `explicit` names those that were set for this topic. `created_here` is
    true once, for the first read of a topic that this process created: an existing topic is adopted.
    """

    name: str
    topic_id: str
    partitions: int
    replication: int
    configs: Mapping[str, str] = field(default_factory=dict)
    explicit: frozenset[str] = frozenset()
    created_here: bool = False


class Rate(StrEnum):
    """Quotas of clients: bytes per second that one broker takes from producers, or sends to consumers."""

    PRODUCER = "producer_byte_rate"
    CONSUMER = "consumer_byte_rate"


@dataclass(frozen=True, slots=True)
class GroupView:
    """A consumer group: how many members it has, and the next offset of each topic and partition that it committed."""

    name: str
    members: int = 0
    committed: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Producer:
    """Producers, or other clients, as Kafka's quotas name them: by client.id, by user, or by both."""

    client_id: str | None = None
    user: str | None = None

    @property
    def entity(self) -> tuple[tuple[str, str], ...]:
        """Return the parts of the name in Kafka's protocol: their types and values."""
        parts = (("user", self.user), ("client-id", self.client_id))
        return tuple((kind, name) for kind, name in parts if name is not None)

    def __str__(self) -> str:
        return " ".join(f"{kind}={name}" for kind, name in self.entity)

    @classmethod
    def parse(cls, text: str) -> "Producer":
        """Return the producer of a text, the inverse of `str`."""
        if text.startswith("client-id="):
            return cls(client_id=text.removeprefix("client-id="))
        user, _, client = text.removeprefix("user=").partition(" client-id=")
        return cls(client or None, user)


@dataclass(frozen=True, slots=True)
class KafkaAccess:
    """How to reach a Kafka cluster: settings of the client library, secrets among them.

    Neither the settings nor the secrets ever show in a representation of this value. The fingerprint changes with
    any of them, so that a client is replaced when a Secret changes.
    """

    settings: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False, default=())
    fingerprint: str = ""

    @staticmethod
    def of(settings: Mapping[str, str], secrets: tuple[str, ...] = ()) -> "KafkaAccess":
        """Return the access with its fingerprint."""
        text = json.dumps(dict(settings), sort_keys=True)
        return KafkaAccess(dict(settings), secrets, hashlib.sha256(text.encode()).hexdigest()[:16])


class Acl(NamedTuple):
    """An entry of Kafka's ACLs without its user, in the words of Kafka's tools."""

    kind: str
    name: str
    pattern: str
    operation: str
    host: str = "*"
    effect: str = "Allow"

    @classmethod
    def of(cls, permission: Permission) -> Self:
        """Return the entry that grants a permission."""
        pattern = "Prefixed" if permission.is_prefix else "Literal"
        return cls(str(permission.kind), permission.name, pattern, str(permission.operation))

    def __str__(self) -> str:
        effect = "" if self.effect == "Allow" else f"{self.effect} "
        prefix = "prefix " if self.pattern == "Prefixed" else ""
        return f"{effect}{self.operation} on {self.kind} {prefix}{self.name}"


@dataclass(frozen=True, slots=True)
class UserView:
    """A user as Kafka shows it: the mechanisms that it has a password for, and its ACLs."""

    mechanisms: frozenset[str] = frozenset()
    acls: frozenset[Acl] = frozenset()

    @property
    def exists(self) -> bool:
        """Return whether there is anything of the user."""
        return bool(self.mechanisms or self.acls)
