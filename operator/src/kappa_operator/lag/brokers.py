"""Sends the requests of the sampler to a Kafka cluster, few and large ones; DESCRIBE permissions are enough.

The error of a single topic, partition, group or broker becomes a text beside the results of all others. Only a cluster in which no broker
responds is an error. Requests are split so that no response blocks the event loop for long.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from aiokafka.client import AIOKafkaClient
from aiokafka.errors import NodeNotReadyError
from aiokafka.protocol.admin import ListGroupsRequest

from kappa_operator.errors import KafkaFailure
from kappa_operator.kafka.connection import TIMEOUT, UNAVAILABLE, Connection
from kappa_operator.kafka.encoding import Row
from kappa_operator.kafka.metadata import check_metadata, request_metadata
from kappa_operator.lag.markers import Batch
from kappa_operator.lag.model import Partition
from kappa_operator.lag.protocol import request_commits, request_offsets, request_records
from kappa_operator.lag.responses import (
    Commits,
    Groups,
    Logs,
    Topology,
    Unanswered,
    add_commits,
    add_logs,
    choose_batch,
    name_error,
    parse_topology,
)
from kappa_operator.lag.timestamps import Answer

EARLIEST, LATEST = -2, -1
"""Special values of ListOffsets in place of a time."""
_ROWS = 2000
"""Partitions in one request; decoding takes a few microseconds for each."""
_GROUPS = 100
_CONSUMERS = frozenset({"consumer", "streams", ""})
"""Protocol types of groups that commit offsets; a group that no member ever joined has none."""
_SMALL = 100
"""Bytes: a transaction marker takes 78, and larger batches are not sent."""

Item = TypeVar("Item")


class Brokers:
    """Asks the brokers of one Kafka cluster over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read_topology(self) -> Topology:
        """Return all topics without Kafka's own; raise KafkaFailure where no broker responds."""
        try:
            async with asyncio.timeout(TIMEOUT):
                client = await self._connection.get_client()
                answer = await self._send_to_any(client)
        except (*UNAVAILABLE, Unanswered) as error:
            await self.close()
            raise KafkaFailure(
                f"consumer lag cannot be sampled: {self._connection.describe(error)}"
            ) from error
        check_metadata(answer)
        return parse_topology(answer)

    async def list_groups(self, brokers: Sequence[int]) -> Groups:
        """Return the groups that commit offsets. Each broker lists the groups that it coordinates."""
        answers = await self._send_all({broker: [ListGroupsRequest()] for broker in brokers})
        found, silent = {}, {}
        for broker, _, answer in answers:
            if isinstance(answer, Unanswered):
                silent[broker] = str(answer)
            elif answer.error_code:
                silent[broker] = name_error(answer.error_code)
            else:
                found[broker] = tuple(name for name, protocol in answer.groups if protocol in _CONSUMERS)
        return Groups(found, silent)

    async def read_commits(self, groups: Mapping[int, Sequence[str]]) -> Commits:
        """Return the committed offsets of these groups; the request goes to their coordinators."""
        requests = {
            broker: [request_commits(some) for some in _cut(names, _GROUPS)]
            for broker, names in groups.items()
        }
        commits = Commits()
        known: dict[str, dict[int, Partition]] = defaultdict(dict)
        for broker, index, answer in await self._send_all(requests):
            if isinstance(answer, Unanswered):
                asked = list(_cut(groups[broker], _GROUPS))[index]
                commits.unread |= dict.fromkeys(asked, str(answer))
                continue
            for group, topics, error, _ in answer.groups:
                add_commits(commits, known, group, topics, error)
        return commits

    async def read_logs(self, leaders: Mapping[Partition, int]) -> Logs:
        """Return the start and end of these logs from their leaders.

        The request for the starts comes first and that for the ends last, and a leader responds in order: records that arrive between them only make logs longer.
        """
        chunks = _cut_by_leader(leaders, leaders)
        requests = {
            leader: [
                request_offsets(_group((partition, special) for partition in some), committed=committed)
                for some in lists
                for special, committed in ((EARLIEST, False), (LATEST, True), (LATEST, False))
            ]
            for leader, lists in chunks.items()
        }
        logs = Logs()
        answers = {(leader, index): answer for leader, index, answer in await self._send_all(requests)}
        for leader, lists in chunks.items():
            for index, some in enumerate(lists):
                three = [answers[leader, 3 * index + which] for which in range(3)]
                add_logs(logs, some, three)
                await asyncio.sleep(0)
        return logs

    async def find_stamps(
        self, leaders: Mapping[Partition, int], questions: Mapping[Partition, int]
    ) -> dict[Partition, Answer | str]:
        """Return the first record with a timestamp of at least so many milliseconds, or why it is unknown.

        Without such a record the offset of the response is -1.
        """

        def request(some: Sequence[Partition]) -> Any:
            return request_offsets(_group((each, questions[each]) for each in some), committed=False)

        found: dict[Partition, Answer | str] = {}
        for some, answer in await self._ask_leaders(questions, leaders, request):
            if isinstance(answer, Unanswered):
                found |= dict.fromkeys(some, str(answer))
                continue
            for topic, rows, _ in answer.topics:
                for number, error, stamp, offset, *_ in rows:
                    partition = Partition(topic, number)
                    asked = questions[partition]
                    found[partition] = name_error(error) if error else Answer(asked, offset, stamp)
        return found

    async def find_batches(
        self, leaders: Mapping[Partition, int], offsets: Mapping[Partition, int]
    ) -> dict[Partition, Batch | str]:
        """Return the batches at these offsets, or why they are unknown.

        Only this needs the permission to READ the topic. Only batches as small as a transaction marker are sent, and their records are not
        decoded; a larger batch counts as data that ends at the requested offset.
        """

        def request(some: Sequence[Partition]) -> Any:
            return request_records(_group((each, offsets[each], _SMALL) for each in some), _SMALL * len(some))

        found: dict[Partition, Batch | str] = {}
        for some, answer in await self._ask_leaders(offsets, leaders, request):
            if isinstance(answer, Unanswered):
                found |= dict.fromkeys(some, str(answer))
                continue
            for topic, rows in answer.topics:
                for number, error, _, _, _, batches in rows:
                    each = Partition(topic, number)
                    found[each] = name_error(error) if error else choose_batch(offsets[each], batches)
        return found

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()

    async def _send_to_any(self, client: AIOKafkaClient) -> Any:
        refused: Unanswered | None = None
        for broker in sorted(client.cluster.brokers(), key=lambda each: each.nodeId):
            answer = await self._send(broker.nodeId, request_metadata())
            if not isinstance(answer, Unanswered):
                return answer
            refused = answer
        raise refused or Unanswered("no broker is known")

    async def _ask_leaders(
        self,
        partitions: Iterable[Partition],
        leaders: Mapping[Partition, int],
        build: Callable[[Sequence[Partition]], Any],
    ) -> list[tuple[Sequence[Partition], Any]]:
        """Return partitions with the response of their leader, or Unanswered; `build` returns the request for some."""
        chunks = _cut_by_leader(partitions, leaders)
        requests = {leader: [build(some) for some in lists] for leader, lists in chunks.items()}
        answers = await self._send_all(requests)
        return [(chunks[leader][index], answer) for leader, index, answer in answers]

    async def _send_all(self, requests: Mapping[int, Sequence[Any]]) -> list[tuple[int, int, Any]]:
        """Send each broker its requests in order; return broker, number of the request, and the response or Unanswered."""
        per_broker = await asyncio.gather(
            *(self._send_in_order(broker, each) for broker, each in requests.items())
        )
        return [
            (broker, index, answer)
            for broker, answers in zip(requests, per_broker, strict=True)
            for index, answer in enumerate(answers)
        ]

    async def _send_in_order(self, broker: int, requests: Sequence[Any]) -> list[Any]:
        answers: list[Any] = []
        for request in requests:
            given_up = bool(answers) and isinstance(answers[-1], Unanswered)
            answers.append(answers[-1] if given_up else await self._send(broker, request))
        return answers

    async def _send(self, broker: int, request: Any) -> Any:
        """Return the response, or Unanswered."""
        try:
            return await (await self._connection.get_client()).send(broker, request)
        except NodeNotReadyError:
            return Unanswered(f"broker {broker} does not respond")
        except UNAVAILABLE as error:
            return Unanswered(f"broker {broker} does not respond: {self._connection.describe(error)}")


def _cut(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    for begin in range(0, len(items), size):
        yield items[begin : begin + size]


def _cut_by_leader(
    partitions: Iterable[Partition], leaders: Mapping[Partition, int]
) -> dict[int, list[Sequence[Partition]]]:
    found: dict[int, list[Partition]] = defaultdict(list)
    for partition in partitions:
        found[leaders[partition]].append(partition)
    return {leader: list(_cut(each, _ROWS)) for leader, each in found.items()}


def _group(rows: Iterable[tuple[Any, ...]]) -> list[tuple[str, list[Row]]]:
    """Return rows that begin with a partition, grouped by topic as requests need them."""
    found: dict[str, list[Row]] = defaultdict(list)
    for (topic, number), *rest in rows:
        found[topic].append((number, *rest))
    return list(found.items())
