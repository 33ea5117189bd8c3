"""The client of one Kafka cluster: many concurrent reconciles become few calls to the brokers.

A change is done when it can be *observed*: brokers learn of a new topic some milliseconds after the controller
created it, and a status reports what was observed. So every change is followed by reads until they show it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar, assert_never

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kappa_operator.engine import actions as act
from kappa_operator.errors import KafkaFailure, KafkaRefused, TlsFailed
from kappa_operator.fair import FairSlots
from kappa_operator.kafka import calls as kafka_calls
from kappa_operator.kafka.batcher import Batcher
from kappa_operator.kafka.configs import ConfigReader, TopicConfigs
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.errors import ClientErrors
from kappa_operator.kafka.groups import GroupClient
from kappa_operator.kafka.metadata import FoundTopic, count_topics, find_topics
from kappa_operator.kafka.model import ClusterView, GroupView, KafkaAccess, Producer, Rate, TopicView
from kappa_operator.kafka.quotas import QuotaClient
from kappa_operator.kafka.users import UserClient
from kappa_operator.log.facts import Known, LogFacts
from kappa_operator.log.facts import Question as Asked
from kappa_operator.log.observe import observe_log
from kappa_operator.topic.configs import is_same_value

_THREADS = 2
_BATCH, _CHANGES = 100, 40
"""Topics in one request, and changes in one of the library's client: the response has to fit into a frame."""
_SLOTS = 64
_FIRST_READ, _SLOWER = 0.05, 1.3
"""Seconds until the first read, and the factor from pause to pause: reads must not keep a busy broker busy."""
_VISIBLE_WITHIN = 60.0
_FRESH = 10.0
"""Seconds for which a topic is known as this client made it."""

Item = TypeVar("Item")
Result = TypeVar("Result")
Call = Callable[[kafka_calls.Admin, Sequence[Item]], list[Any]]
View = TopicView | None


@dataclass(frozen=True, slots=True)
class Created:
    """A topic as this client made it, and when (monotonic seconds)."""

    view: TopicView
    at: float


class Question(NamedTuple):
    """A topic, and the configs of it that are wanted."""

    topic: str
    configs: frozenset[str]


class KafkaClient:
    """The client of one cluster. Raises KafkaFailure where the settings make no client."""

    def __init__(self, access: KafkaAccess, namespace: str = "", slots: FairSlots | None = None) -> None:
        self._namespace, self._slots = namespace, slots or FairSlots(_SLOTS)
        self.fingerprint = access.fingerprint
        errors = ClientErrors(access.secrets)
        self._admin = kafka_calls.Admin(_build_admin(access, errors), errors)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kafka")
        self._users = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._created: dict[str, Created] = {}
        self._connection = Connection(access, namespace)
        self._configs = ConfigReader(self._connection)
        self._quotas = QuotaClient(self._connection)
        self._groups = GroupClient(self._connection)
        self.users = UserClient(self._connection)
        self._describe: Batcher[Question, View] = Batcher(self._describe_topics, size=_BATCH)
        self._look: Batcher[str, View] = Batcher(self._read_topics, size=_BATCH)
        self._create: Batcher[act.CreateTopic, bool] = self._batch(kafka_calls.create_topics)
        self._grow: Batcher[act.GrowPartitions, bool] = self._batch(kafka_calls.grow_partitions)
        self._alter: Batcher[act.AlterConfigs, bool] = self._batch(kafka_calls.alter_configs)
        self._delete: Batcher[act.DeleteTopic, bool] = self._batch(kafka_calls.delete_topics)

    def _batch(self, call: Call[Item]) -> Batcher[Item, Any]:
        async def run(items: Sequence[Item]) -> list[Any]:
            return await self._in_thread(lambda: call(self._admin, items))

        return Batcher(run, size=_CHANGES)

    async def _in_thread(self, call: Callable[[], Result]) -> Result:
        async with self._slots.hold(self._namespace):
            return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    async def describe_cluster(self) -> ClusterView:
        """Return the cluster as it answers now, without its topics; raise KafkaFailure."""
        return await self._in_thread(partial(kafka_calls.describe_cluster, self._admin))

    async def count_topics(self) -> int:
        """Return how many topics there are without Kafka's own; raise KafkaFailure."""
        return await count_topics(self._connection)

    async def describe_topic(self, topic: str, configs: frozenset[str]) -> TopicView | None:
        """Return the topic with these configs, or None; raise KafkaFailure."""
        created = self._created.pop(topic, None)
        if created is not None and time.monotonic() < created.at + _FRESH:
            return created.view
        return await self._describe.submit(Question(topic, configs))

    async def _describe_topics(self, questions: Sequence[Question]) -> list[View | KafkaFailure]:
        names = [question.topic for question in questions]
        views = await self._read_topics(names)
        wanted: dict[str, frozenset[str]] = {}
        for question, view in zip(questions, views, strict=True):
            if isinstance(view, TopicView) and question.configs:
                wanted[view.name] = wanted.get(view.name, frozenset()) | question.configs
        found = await self._configs.read(wanted) if wanted else {}
        return [_add_configs(view, found) for view in views]

    async def _read_topics(self, names: Sequence[str]) -> list[View | KafkaFailure]:
        found = await find_topics(self._connection, dict.fromkeys(names))
        missing = FoundTopic(kafka_calls.Gone)
        return [kafka_calls.build_view(self._admin, name, found.get(name, missing)) for name in names]

    async def apply(self, action: act.KafkaAction) -> None:
        """Make the change and wait until it shows; raise KafkaFailure."""
        match action:
            case act.CreateTopic():
                await self._create_topic(action)
            case act.GrowPartitions():
                await self._grow.submit(action)
                await self._await_topic(action.topic, self._look.submit, partial(_has_grown, action))
            case act.AlterConfigs():
                await self._alter_configs(action)
            case act.DeleteTopic():
                await self._delete.submit(action)
                await self._await_topic(action.topic, self._look.submit, lambda view: view is None)
            case act.CommitOffsets(_, group, offsets):
                await self._groups.commit(group, offsets)
            case act.SetQuota(_, producer, rate, kind):
                await self._quotas.set(producer, rate, kind)
            case act.GrantPermissions() | act.RevokePermissions() | act.DeleteUser():
                await self.users.apply(action)
            case _:
                assert_never(action)

    async def read_quota(self, producer: Producer, kind: Rate) -> float | None:
        """Return the bytes a second for each broker, None where the client has no quota of its own."""
        return await self._quotas.read(producer, kind)

    async def read_group(self, group: str) -> GroupView:
        """Return a consumer group; raise KafkaFailure."""
        return await self._groups.read(group)

    async def read_log(self, questions: Sequence[Asked], known: Known) -> LogFacts:
        """Return the facts that prove logs whole; raise KafkaFailure where no broker responds."""
        async with self._slots.hold(self._namespace):
            return await observe_log(self._connection, questions, known)

    async def _create_topic(self, action: act.CreateTopic) -> None:
        """Create the topic and remember its configs: reading them would cost more than creating it."""
        is_ours = await self._create.submit(action)
        view = await self._await_topic(action.topic, self._look.submit, lambda view: view is not None)
        if is_ours and view is not None:
            made = replace(
                view, configs=action.configs, explicit=frozenset(action.configs), created_here=True
            )
            self._created[action.topic] = Created(made, time.monotonic())

    async def _alter_configs(self, action: act.AlterConfigs) -> None:
        """Alter what can be altered: Kafka refuses all configs of a call for the sake of one."""
        try:
            await self._alter.submit(action)
        except KafkaRefused as refusal:
            if len(action.configs) == 1:
                raise
            await self._alter_one_by_one(action, refusal)
        names = frozenset(action.configs)
        await self._await_topic(
            action.topic,
            lambda topic: self._describe.submit(Question(topic, names)),
            partial(_is_altered, action),
        )

    async def _alter_one_by_one(self, action: act.AlterConfigs, refusal: KafkaRefused) -> None:
        refused: list[KafkaRefused] = []
        for name, value in action.configs.items():
            try:
                await self._alter.submit(act.AlterConfigs(action.cluster, action.topic, {name: value}))
            except KafkaRefused as error:
                refused.append(error)
        if refused:
            message = "; ".join(dict.fromkeys(error.message for error in refused))
            raise KafkaRefused(message, code=refusal.code, reason=refusal.reason)

    async def _await_topic(
        self, topic: str, read: Callable[[str], Awaitable[View]], is_done: Callable[[View], bool]
    ) -> View:
        deadline, pause = time.monotonic() + _VISIBLE_WITHIN, _FIRST_READ
        while not is_done(view := await read(topic)):
            if time.monotonic() > deadline:
                raise KafkaFailure(
                    f"Kafka accepted the change of topic {topic}, but {_VISIBLE_WITHIN:.0f} s later its brokers"
                    " do not show it; or the user may not see it, and needs Describe on the topic"
                )
            await asyncio.sleep(pause)
            pause *= _SLOWER
        return view

    @contextmanager
    def use(self) -> Iterator["KafkaClient"]:
        """Keep the client open: a call may need several requests."""
        self._users += 1
        self._unused.clear()
        try:
            yield self
        finally:
            self._users -= 1
            if not self._users:
                self._unused.set()

    async def close(self) -> None:
        """Close the client once the calls under way have ended."""
        await self._unused.wait()
        await self._connection.close()
        await asyncio.to_thread(self._destroy)

    def _destroy(self) -> None:
        """End the library's client, which has connections of its own, once no thread is in a call of it."""
        self._threads.shutdown(wait=True)
        self._admin.client.__exit__(None, None, None)


def _build_admin(access: KafkaAccess, errors: ClientErrors) -> AdminClient:
    try:
        settings: dict[str, Any] = {**access.settings, "error_cb": errors.record}
        return AdminClient(settings)
    except KafkaException as error:
        failure = errors.explain(error.args[0])
        is_tls = "ssl" in failure.message
        raise (TlsFailed if is_tls else KafkaFailure)(failure.message, retryable=False) from None


def _add_configs(
    view: View | KafkaFailure, found: Mapping[str, TopicConfigs | KafkaFailure | None]
) -> View | KafkaFailure:
    if not isinstance(view, TopicView) or view.name not in found:
        return view
    configs = found[view.name]
    if isinstance(configs, TopicConfigs):
        return replace(view, configs=configs.values, explicit=configs.explicit)
    return configs


def _has_grown(action: act.GrowPartitions, view: View) -> bool:
    return view is not None and view.partitions >= action.partitions


def _is_altered(action: act.AlterConfigs, view: View) -> bool:
    return view is not None and all(
        name not in view.explicit if value is None else is_same_value(view.configs.get(name), value)
        for name, value in action.configs.items()
    )
