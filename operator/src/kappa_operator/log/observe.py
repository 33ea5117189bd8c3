"""Gathers the facts of logs from the brokers: a few batched requests for all sources, and no record is read."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kappa_operator.errors import KafkaFailure
from kappa_operator.kafka.configs import ConfigReader, TopicConfigs
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.metadata import format_topic_id
from kappa_operator.lag.brokers import Brokers
from kappa_operator.lag.model import Partition
from kappa_operator.lag.responses import Logs, Topology
from kappa_operator.lag.timestamps import Answer
from kappa_operator.log.facts import (
    SETTINGS,
    Edge,
    Known,
    LogFacts,
    LogSettings,
    PartitionFacts,
    Question,
    Record,
    SourceFacts,
    Start,
    TopicFacts,
)

Stamps = Mapping[Partition, Answer | str]


@dataclass(frozen=True, slots=True)
class _Answers:
    """The answers of the brokers about all topics. `firsts` are the first records."""

    topology: Topology
    logs: Logs
    firsts: Stamps
    settings: Mapping[str, LogSettings]


async def observe_log(
    connection: Connection,
    questions: Sequence[Question],
    known: Known | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> LogFacts:
    """Return the facts that answer the questions; raise KafkaFailure where no broker responds.

    The user needs Describe and DescribeConfigs on the topics. A partition or topic that cannot be read has a problem, beside all others.
    """
    reader = _Reader(Brokers(connection), ConfigReader(connection), known or Known())
    return await reader.read(questions, now())


class _Reader:
    """Reads the logs of one cluster once."""

    def __init__(self, brokers: Brokers, configs: ConfigReader, known: Known) -> None:
        self._brokers, self._configs, self._known = brokers, configs, known

    async def read(self, questions: Sequence[Question], at: datetime) -> LogFacts:
        topology = await self._brokers.read_topology()
        names = {question.source: self._find_topics(question, questions) for question in questions}
        wanted = {name for some in names.values() for name in some}
        leaders = {each: leader for each, leader in topology.leaders.items() if each.topic in wanted}
        logs = await self._brokers.read_logs(leaders)
        logs.unavailable |= topology.unavailable
        firsts = await self._find_stamps(leaders, logs, Edge.EARLIEST)
        answers = _Answers(topology, logs, firsts, await self._read_settings(wanted & topology.ids.keys()))
        sources = []
        for question in questions:
            some = {each: leader for each, leader in leaders.items() if each.topic in names[question.source]}
            begins = await self._find_begins(question, some, logs)
            topics = tuple(self._build_topic(name, answers, begins) for name in names[question.source])
            sources.append(SourceFacts(question, topics))
        return LogFacts(at, tuple(sources))

    def _find_topics(self, question: Question, questions: Sequence[Question]) -> tuple[str, ...]:
        """Return the topics that a source names, or for a pattern those that the pipeline has read.

        A pattern is not evaluated here: a regular expression of a tenant could hold the operator for hours.
        """
        if question.pattern is None:
            return question.topics
        named = {name for each in questions for name in each.topics}
        return tuple(sorted({each.topic for each in self._known.committed} - named))

    async def _find_stamps(self, leaders: Mapping[Partition, int], logs: Logs, start: Start) -> Stamps:
        """Return the first record of each partition that has a timestamp of a time or later."""
        stamp = round(start.timestamp() * 1000) if isinstance(start, datetime) else 0
        there = {each: stamp for each in leaders if each in logs.logs}
        return await self._brokers.find_stamps(leaders, there)

    async def _find_begins(
        self, question: Question, leaders: Mapping[Partition, int], logs: Logs
    ) -> dict[Partition, int]:
        """Return the offset where the run starts in each partition, as far as that is known."""
        there = [each for each in leaders if each in logs.logs]
        if question.start is Edge.EARLIEST:
            return dict.fromkeys(there, 0)
        if question.start is Edge.LATEST:
            return {each: logs.logs[each].end for each in there}
        stamps = await self._find_stamps(leaders, logs, question.start)
        return {
            each: answer.offset if answer.offset >= 0 else logs.logs[each].end
            for each, answer in stamps.items()
            if isinstance(answer, Answer)
        }

    async def _read_settings(self, topics: Iterable[str]) -> dict[str, LogSettings]:
        """Return the settings of the topics that this user may read them of."""
        names = sorted(topics)
        try:
            found = await self._configs.read(dict.fromkeys(names, SETTINGS)) if names else {}
        except KafkaFailure:
            return {}
        return {
            name: LogSettings.parse(configs.values)
            for name, configs in found.items()
            if isinstance(configs, TopicConfigs)
        }

    def _build_topic(self, name: str, answers: _Answers, begins: Mapping[Partition, int]) -> TopicFacts:
        known, topology = self._known.ids.get(name), answers.topology
        if name not in topology.ids:
            return TopicFacts(name, known_id=known)
        own = sorted(each for each in {*topology.leaders, *topology.unavailable} if each.topic == name)
        partitions = tuple(self._build_partition(each, answers, begins.get(each)) for each in own)
        identity = format_topic_id(topology.ids[name])
        return TopicFacts(name, identity, known, answers.settings.get(name), partitions)

    def _build_partition(self, each: Partition, answers: _Answers, begin: int | None) -> PartitionFacts:
        committed, logs = self._known.committed.get(each), answers.logs
        log, first = logs.logs.get(each), answers.firsts.get(each)
        if log is None or isinstance(first, str):
            problem = first if isinstance(first, str) else logs.unavailable.get(each, "")
            return PartitionFacts(each.number, committed=committed, problem=problem)
        record = Record(first.offset, first.stamp) if first is not None and first.offset >= 0 else None
        return PartitionFacts(
            each.number, log, record, begin, committed, archived=self._known.archived.get(each)
        )
