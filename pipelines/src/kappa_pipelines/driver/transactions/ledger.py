"""Which transactions have been read as a whole, and how far all topics can be read without dividing one. Pure.

A transaction is complete when all changes that its end counts have been read. It is complete as well when no more of them can come:
compaction removes changes, and a connector that starts again writes a part of a transaction for the second time. That is known from the
order of the log, as one connector writes all topics: a partition with a record that is later than the end has no change before it.
"""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kappa_pipelines.checkpoint.format.offsets import Offsets, TopicPartition
from kappa_pipelines.driver.transactions.events import Change, End

SLACK_MILLISECONDS = 60_000
"""How far the times of records may be out of order: Kafka's, or those of a connector whose clock was set."""
GRACE_SECONDS = 10.0
"""How long a change may be visible after the end of its transaction: partitions have different leaders."""
MOST_OPEN = 100_000
"""Transactions that may be incomplete at a time, which bounds the memory."""
RELEASED = 20_000
"""Transactions that are remembered, because a connector that starts again may write changes of them again."""

Key = tuple[str, str]
"""A topic of transactions, and the id of a transaction."""


@dataclass(slots=True)
class _Span:
    """The changes of a transaction in a partition: the first and last offset, the highest order, and how many orders there are."""

    first: int
    last: int
    order: int = 0
    count: int = 0


@dataclass(slots=True)
class _Transaction:
    """A transaction with changes that are not released. `time` is that of the last record about it, in Kafka, in milliseconds."""

    key: Key
    touched: float
    time: int
    spans: dict[TopicPartition, _Span] = field(default_factory=dict)
    expected: Mapping[str, int] | None = None
    is_complete: bool = False

    def find_lacking(self) -> list[str]:
        """Return the topics with fewer changes than the end counts."""
        counts: dict[str, int] = {}
        for (topic, _), span in self.spans.items():
            counts[topic] = counts.get(topic, 0) + span.count
        return [topic for topic, count in (self.expected or {}).items() if counts.get(topic, 0) < count]


@dataclass(slots=True)
class _Runs:
    """The runs of changes of one transaction in a partition, in the order of their first offsets."""

    starts: list[int] = field(default_factory=list)
    owners: list[_Transaction] = field(default_factory=list)

    def add(self, offset: int, owner: _Transaction) -> None:
        if not self.owners or self.owners[-1] is not owner:
            self.starts.append(offset)
            self.owners.append(owner)

    def drop(self, before: int) -> None:
        count = bisect_left(self.starts, before)
        del self.starts[:count], self.owners[:count]


class Ledger:
    """The records between the last cut and what has been read. `topics` are the topics with changes, by that of their transactions.

    Times of `now` are of a clock that does not jump, in seconds.
    """

    def __init__(
        self, topics: Mapping[str, Iterable[str]], max_wait: float, most_open: int = MOST_OPEN
    ) -> None:
        self._topics = {name: tuple(each) for name, each in topics.items()}
        self._of = {topic: name for name, each in self._topics.items() for topic in each}
        self._max_wait = max_wait
        self._most_open = most_open
        self._transactions: dict[Key, _Transaction] = {}
        self._released: OrderedDict[Key, None] = OrderedDict()
        self._runs: dict[TopicPartition, _Runs] = {}
        self._positions: Offsets = {}
        self._times: dict[TopicPartition, int] = {}
        self._sample: tuple[float, Offsets] | None = None
        self._caught_up = float("-inf")
        self.cut: Offsets = {}
        self.divided = 0
        """Transactions that were released without their end, or before all of their changes."""

    def begin(self, at: TopicPartition, offset: int) -> None:
        """Have a partition from this offset on. Those with changes are part of cuts."""
        self._positions[at] = offset
        if at[0] in self._of:
            self.cut[at] = offset
            self._runs[at] = _Runs()

    def pass_by(self, at: TopicPartition, offset: int, time: int = 0) -> None:
        """Note that a partition is read up to this offset, excluded; `time` is that of the last record, in milliseconds."""
        self._positions[at] = max(offset, self._positions[at])
        self._times[at] = max(time, self._times.get(at, 0))

    def add_change(self, at: TopicPartition, offset: int, time: int, change: Change, now: float) -> None:
        """Add a change. One that was written again counts once: in a partition the orders of a transaction grow.

        After its transaction was released, it belongs to none.
        """
        self.pass_by(at, offset + 1, time)
        key = self._of[at[0]], change.transaction
        if key in self._released:
            return
        found = self._find(key, time, now)
        span = found.spans.setdefault(at, _Span(offset, offset))
        span.last = offset
        if change.order > span.order:
            span.order, span.count = change.order, span.count + 1
        self._runs[at].add(offset, found)
        self._count(found)

    def add_end(self, at: TopicPartition, offset: int, time: int, end: End, now: float) -> None:
        """Add the end of a transaction. Changes of tables that are not read do not count."""
        self.pass_by(at, offset + 1, time)
        prefix = at[0].rpartition(".")[0]
        wanted = {f"{prefix}.{table}": count for table, count in end.changes.items()}
        expected = {topic: count for topic, count in wanted.items() if topic in self._topics[at[0]]}
        key = at[0], end.transaction
        if key in self._released:
            return
        if expected or key in self._transactions:
            found = self._find(key, time, now)
            found.expected = expected
            self._count(found)

    def _find(self, key: Key, time: int, now: float) -> _Transaction:
        found = self._transactions.get(key)
        if found is None:
            found = self._transactions[key] = _Transaction(key, now, time)
        found.touched, found.time = now, max(time, found.time)
        return found

    def _count(self, found: _Transaction) -> None:
        found.is_complete |= found.expected is not None and not found.find_lacking()

    def sample(self, ends: Offsets, now: float) -> None:
        """Note the ends of all partitions in Kafka at this moment, unless the last ones have not been reached yet."""
        if self._sample is None:
            self._sample = now, ends
        self._reach()

    def _reach(self) -> None:
        if self._sample is not None:
            now, ends = self._sample
            if all(self._positions.get(at, 0) >= end for at, end in ends.items()):
                self._caught_up, self._sample = now, None

    @property
    def pending(self) -> int:
        """Return the number of offsets behind the cut that have been read."""
        return sum(self._positions[at] - offset for at, offset in self.cut.items())

    def find_cut(self) -> Offsets:
        """Return the highest offset of each partition such that each transaction is wholly before them or wholly not."""
        self._reach()
        self._settle()
        cut = {at: self._positions[at] for at in self.cut}
        excluded = [each for each in self._transactions.values() if not each.is_complete]
        known = {id(each) for each in excluded}
        while excluded:
            for at, span in excluded.pop().spans.items():
                runs, high = self._runs[at], cut[at]
                if span.first >= high:
                    continue
                cut[at] = span.first
                low = bisect_left(runs.starts, span.first)
                for owner in runs.owners[low : bisect_left(runs.starts, high)]:
                    if id(owner) not in known:
                        known.add(id(owner))
                        excluded.append(owner)
        return cut

    def release(self, cut: Offsets) -> None:
        """Forget what is before a cut that `find_cut` returned."""
        for at, offset in cut.items():
            runs = self._runs[at]
            for owner in runs.owners[: bisect_left(runs.starts, offset)]:
                self._transactions.pop(owner.key, None)
                if owner.expected is not None:
                    self._released[owner.key] = None
            runs.drop(offset)
        while len(self._released) > RELEASED:
            self._released.popitem(last=False)
        self.cut = dict(cut)

    def _settle(self) -> None:
        """Mark transactions of which no more can come as complete, and forget those without any change here."""
        waiting = [each for each in self._transactions.values() if not each.is_complete]
        excess = len(waiting) - self._most_open
        for number, each in enumerate(waiting):
            is_ended, is_passed = each.expected is not None, self._has_passed(each)
            wait = GRACE_SECONDS if is_ended else self._max_wait
            is_late = self._caught_up >= each.touched + wait
            if not is_passed and not is_late and number >= excess:
                continue
            each.is_complete = True
            self.divided += not is_passed and not (is_ended and is_late)
            if not each.spans:
                del self._transactions[each.key]

    def _has_passed(self, each: _Transaction) -> bool:
        """Return whether the partitions with what a transaction lacks have been read to a later time."""
        lacking = each.find_lacking() if each.expected is not None else [each.key[0]]
        times = [self._times.get(at, 0) for topic in lacking for at in self._positions if at[0] == topic]
        return bool(times) and min(times) > each.time + SLACK_MILLISECONDS
