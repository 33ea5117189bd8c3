"""Kafka clusters in dicts.

`FakeBroker` is a cluster, reached by its bootstrap servers; `FakeKafka` is a process's clients and dies with it. As
the real one: topic ids, partitions that only grow, configs with defaults, values in Kafka's own spelling, refusals in
its words, a log-in. What it does not do: records, replicas, the delay until brokers know of a change.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fakes.fuse import Fuse
from kappa_crds.reasons import Reason
from kappa_operator.engine.actions import (
    AlterConfigs,
    CommitOffsets,
    CreateTopic,
    DeleteTopic,
    DeleteUser,
    GrantPermissions,
    GrowPartitions,
    KafkaAction,
    RevokePermissions,
    SetQuota,
)
from kappa_operator.engine.keys import Key
from kappa_operator.errors import AuthenticationFailed, BrokerUnreachable, KafkaFailure, KafkaRefused
from kappa_operator.kafka.clients import AdminClients, Resolve
from kappa_operator.kafka.model import (
    Acl,
    ClusterView,
    GroupView,
    KafkaAccess,
    Producer,
    Rate,
    TopicView,
    UserView,
)
from kappa_operator.lag.model import Partition, PartitionLog
from kappa_operator.log.facts import (
    Known,
    LogFacts,
    LogSettings,
    PartitionFacts,
    Question,
    SourceFacts,
    TopicFacts,
)

DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "min.cleanable.dirty.ratio": "0.5",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
}
_WORDS = ("cleanup.policy", "compression.type")


@dataclass
class FakeTopic:
    """A topic as the broker keeps it."""

    topic_id: str
    partitions: int
    replication: int
    configs: dict[str, str] = field(default_factory=dict)


class FakeBroker:
    """A Kafka cluster. `trouble` is raised by every call; `passwords` asks for a log-in."""

    def __init__(self, cluster_id: str = "kafka-1", passwords: dict[str, str] | None = None) -> None:
        self.cluster_id = cluster_id
        self.passwords = passwords
        self.advertised: tuple[str, ...] = ()
        self.topics: dict[str, FakeTopic] = {}
        self.quotas: dict[Producer, float] = {}
        self.trouble: KafkaFailure | None = None
        self.quota_trouble: KafkaFailure | None = None
        self.users: dict[str, tuple[str, str]] = {}
        """Mechanisms and passwords by user."""
        self.acls: dict[str, frozenset[Acl]] = {}
        self.user_trouble: KafkaFailure | None = None
        self.groups: dict[str, GroupView] = {}
        self.log_ins = 0
        self.logs: dict[Partition, PartitionFacts] = {}
        """What is in partitions; others are empty."""
        self._ids = itertools.count(1)

    def add(
        self, name: str, partitions: int = 1, replication: int = 1, configs: dict[str, str] | None = None
    ) -> FakeTopic:
        """Make a topic; raise KafkaRefused for a config that Kafka would refuse."""
        stored = {key: normalise(key, value) for key, value in (configs or {}).items()}
        self.topics[name] = FakeTopic(
            f"{self.cluster_id}-topic-{next(self._ids)}", partitions, replication, stored
        )
        return self.topics[name]

    def show(self, name: str, configs: frozenset[str] | None = None) -> TopicView | None:
        """Return the topic as a client sees it, with the configs that it asks for (None: all)."""
        topic = self.topics.get(name)
        if topic is None:
            return None
        values = {**DEFAULTS, **topic.configs}
        seen = values.keys() if configs is None else configs
        return TopicView(
            name,
            topic.topic_id,
            topic.partitions,
            topic.replication,
            {config: value for config, value in values.items() if config in seen},
            frozenset(config for config in topic.configs if config in seen),
        )

    def apply(self, action: KafkaAction) -> None:
        """Execute the action."""
        match action:
            case CommitOffsets(_, group, offsets):
                known = self.groups.get(group, GroupView(group))
                if known.members:
                    raise KafkaRefused(f"group {group} has members", code="UNKNOWN_MEMBER_ID")
                self.groups[group] = GroupView(group, 0, {**known.committed, **offsets})
            case CreateTopic(_, topic, partitions, replication, configs):
                if topic not in self.topics:
                    self.add(topic, partitions, replication or 1, configs)
            case GrowPartitions(_, topic, _, partitions):
                if partitions <= self.topics[topic].partitions:
                    raise KafkaRefused("Kafka refused: topic would not grow", code="INVALID_PARTITIONS")
                self.topics[topic].partitions = partitions
            case AlterConfigs(_, topic, configs):
                self._alter(self.topics[topic], configs)
            case DeleteTopic(_, topic):
                self.topics.pop(topic, None)
            case SetQuota(_, producer, rate, _):
                self._set_quota(producer, rate)
            case GrantPermissions() | RevokePermissions() | DeleteUser():
                self._change_user(action)

    def show_user(self, user: str) -> UserView:
        """Return a user as a client sees it."""
        if self.user_trouble is not None:
            raise self.user_trouble
        known = self.users.get(user)
        return UserView(
            frozenset() if known is None else frozenset({known[0]}), self.acls.get(user, frozenset())
        )

    def put_user(self, user: str, mechanism: str, password: str) -> None:
        """Set the password of a user."""
        if self.user_trouble is not None:
            raise self.user_trouble
        self.users[user] = (mechanism, password)

    def show_log(self, name: str, known: Known) -> TopicFacts:
        """Return the facts of a topic's log."""
        topic = self.topics.get(name)
        if topic is None:
            return TopicFacts(name, known_id=known.ids.get(name))
        partitions = tuple(
            replace(
                self.logs.get(
                    Partition(name, number), PartitionFacts(number, PartitionLog(0, 0, 0), begin=0)
                ),
                committed=known.committed.get(Partition(name, number)),
                archived=known.archived.get(Partition(name, number)),
            )
            for number in range(topic.partitions)
        )
        settings = LogSettings.parse({**DEFAULTS, **topic.configs})
        return TopicFacts(name, topic.topic_id, known.ids.get(name), settings, partitions)

    def _change_user(self, action: GrantPermissions | RevokePermissions | DeleteUser) -> None:
        known = self.show_user(action.user).acls
        match action:
            case GrantPermissions(_, user, acls):
                self.acls[user] = known | set(acls)
            case RevokePermissions(_, user, acls):
                self.acls[user] = known - set(acls)
            case DeleteUser(_, user):
                self.users.pop(user, None)
                self.acls.pop(user, None)

    def _set_quota(self, producer: Producer, rate: float | None) -> None:
        if self.quota_trouble is not None:
            raise self.quota_trouble
        if rate is None:
            self.quotas.pop(producer, None)
        else:
            self.quotas[producer] = rate

    def _alter(self, topic: FakeTopic, configs: dict[str, str | None]) -> None:
        refused: list[str] = []
        for key, value in configs.items():
            try:
                if value is None:
                    topic.configs.pop(key, None)
                else:
                    topic.configs[key] = normalise(key, value)
            except KafkaRefused as error:
                refused.append(error.message)
        if refused:
            raise KafkaRefused("; ".join(refused), code="INVALID_CONFIG", reason=Reason.CONFIG_REFUSED)


def normalise(key: str, value: str) -> str:
    """Return the value in Kafka's spelling; raise KafkaRefused in its words."""
    if key not in DEFAULTS:
        message = f"Kafka refused: Unknown topic config name: {key}"
        raise KafkaRefused(message, code="INVALID_CONFIG", reason=Reason.CONFIG_REFUSED)
    text = value.strip()
    if key in _WORDS:
        return ",".join(part.strip() for part in text.split(","))
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        return str(int(text)) if DEFAULTS[key].lstrip("-").isdigit() else str(float(text))
    except ValueError:
        message = f"Kafka refused: Invalid value {value} for configuration {key}: Not a number"
        raise KafkaRefused(message, code="INVALID_CONFIG", reason=Reason.CONFIG_REFUSED) from None


class FakeKafka(AdminClients):
    """The twin of `kafka.AdminClients`: a process's clients for the clusters in `brokers`, by bootstrap servers."""

    def __init__(self, brokers: dict[str, FakeBroker], fuse: Fuse | None = None) -> None:
        self.brokers = brokers
        self.fuse = fuse or Fuse()
        self.actions: list[KafkaAction] = []
        self.looks = 0
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self._accesses: dict[Key, KafkaAccess] = {}
        self._created: set[tuple[Key, str]] = set()
        self._refused: dict[Key, str] = {}

    def connect(self, cluster: Key, access: KafkaAccess) -> None:
        """Remember the access."""
        self._accesses[cluster] = access

    async def ensure(self, cluster: Key, resolve: Resolve, *, again: bool = False) -> None:
        """Remember the access, if there is none yet."""
        if cluster in self._accesses:
            return
        access = await resolve()
        if not again and self._refused.get(cluster) == access.fingerprint:
            raise AuthenticationFailed("refused before")
        self._refused.pop(cluster, None)
        self.connect(cluster, access)

    def has(self, cluster: Key) -> bool:
        """Return whether there is an access."""
        return cluster in self._accesses

    def uses(self, cluster: Key, access: KafkaAccess) -> bool:
        """Return whether this is the access."""
        return self._accesses.get(cluster) == access

    def forget_refusal(self, cluster: Key) -> None:
        """Forget a refused log-in."""
        self._refused.pop(cluster, None)

    def release(self, cluster: Key) -> None:
        """Forget the access."""
        self._accesses.pop(cluster, None)

    async def describe_cluster(self, cluster: Key) -> ClusterView:
        """Return the cluster."""
        broker = self._reach(cluster)
        return ClusterView(broker.cluster_id, 1, 1, len(broker.topics), broker.advertised)

    async def describe_topic(
        self, cluster: Key, topic: str, configs: frozenset[str] = frozenset()
    ) -> TopicView | None:
        """Return the topic with the configs that are asked for, or None."""
        self.looks += 1
        view = self._reach(cluster).show(topic, configs)
        if view is None or (cluster, topic) not in self._created:
            return view
        self._created.discard((cluster, topic))
        return TopicView(
            view.name, view.topic_id, view.partitions, view.replication, view.configs, view.explicit, True
        )

    async def read_quota(self, cluster: Key, producer: Producer, kind: Rate = Rate.PRODUCER) -> float | None:
        """Return the quota of the producer."""
        broker = self._reach(cluster)
        if broker.quota_trouble is not None:
            raise broker.quota_trouble
        return broker.quotas.get(producer)

    async def read_group(self, cluster: Key, group: str) -> GroupView:
        """Return a group; an empty one where it has committed nothing."""
        return self._reach(cluster).groups.get(group, GroupView(group))

    async def read_log(self, cluster: Key, questions: Sequence[Question], known: Known) -> LogFacts:
        """Return the facts of the logs of topics; a topic without logs has empty partitions."""
        broker = self._reach(cluster)
        sources = (
            SourceFacts(question, tuple(broker.show_log(name, known) for name in question.topics))
            for question in questions
        )
        return LogFacts(self.now(), tuple(sources))

    async def read_user(self, cluster: Key, user: str) -> UserView:
        """Return a user."""
        return self._reach(cluster).show_user(user)

    async def put_user(self, cluster: Key, user: str, mechanism: str, password: str) -> None:
        """Set the password of a user, and burn the fuse."""
        self._reach(cluster).put_user(user, mechanism, password)
        self.fuse.wrote()

    async def apply(self, action: KafkaAction) -> None:
        """Execute the action, and burn the fuse."""
        self._reach(action.cluster).apply(action)
        self.actions.append(action)
        if isinstance(action, CreateTopic):
            self._created.add((action.cluster, action.topic))
        self.fuse.wrote()

    def _reach(self, cluster: Key) -> FakeBroker:
        access = self._accesses.get(cluster)
        if access is None:
            raise KafkaFailure(f"there is no connection to {cluster} yet")
        broker = self.brokers.get(access.settings["bootstrap.servers"])
        if broker is None:
            raise BrokerUnreachable(f"{access.settings['bootstrap.servers']}: Connection refused")
        if broker.trouble is not None:
            raise broker.trouble
        self._log_in(cluster, broker, access)
        return broker

    def _log_in(self, cluster: Key, broker: FakeBroker, access: KafkaAccess) -> None:
        if broker.passwords is None:
            return
        broker.log_ins += 1
        user, password = (access.settings.get(f"sasl.{what}", "") for what in ("username", "password"))
        if broker.passwords.get(user) != password:
            self._refused[cluster] = access.fingerprint
            self.release(cluster)
            raise AuthenticationFailed("Authentication failed: Invalid username or password")
