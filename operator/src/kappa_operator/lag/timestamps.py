"""Finds the timestamp at an offset by requests that Kafka answers from its time index: it reads no record.

For a time, Kafka returns the first record with a timestamp at or after it, `ListOffsets(for_timestamp)`. So the search finds the newest
timestamp up to an offset. Where timestamps ascend that is the record's own. A late record, with an older timestamp than the one before it,
counts from its arrival: that is how long it is unread.

The result is unknown where a record has a timestamp from the future, which hides those of all later records, or has none (-1).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TOLERANCE = 800
"""Milliseconds: the tolerance of the result."""
AHEAD = 1000
"""Milliseconds that a producer's clock may be ahead of ours."""
NONE = -1
"""No timestamp is known."""
NEWEST = -3
"""Special value of ListOffsets for the record with the newest timestamp."""


class Answer(NamedTuple):
    """A response of Kafka: the first record with a timestamp of at least `asked` is at `offset` and has the timestamp `stamp`.

    Without such a record `offset` is the end of the log at that time and `stamp` is NONE. All times are Unix time in milliseconds.
    """

    asked: int
    offset: int
    stamp: int


@dataclass(slots=True)
class Search:
    """The state of the search for the timestamp at `target` in a log from `start` to `end`.

    `low` is the newest known timestamp of a record before the target, `high` a time that none of those has reached; None where unknown. `far`
    is the time after which there was no record, which helps with later targets. `ceiling` is a time that no valid timestamp has reached.
    `gaps` is whether offsets may be missing after compaction, `is_past` the side of the last response. The search ends with `done`; `stamp`
    is then the result, or None for the reason in `why`.
    """

    target: int
    start: int
    end: int
    ceiling: int
    gaps: bool = False
    guess: int | None = None
    low: int = NONE
    low_offset: int = 0
    high: int | None = None
    high_offset: int = 0
    high_stamp: int = NONE
    newest: int | None = None
    far: Answer | None = None
    is_past: bool = False
    rounds: int = 0
    done: bool = False
    stamp: int | None = None
    why: str = ""

    def recall(self, known: Iterable[Answer]) -> None:
        """Take former responses, which are still valid: a log only grows at its end and shrinks at its start."""
        for answer in known:
            if answer.stamp == NONE and answer.offset >= self.target:
                self.far = answer
            if answer.offset >= self.target or (answer.stamp >= 0 and answer.offset >= self.start):
                self._narrow(answer)

    def take(self, answer: Answer) -> None:
        """Take the response to the last request."""
        self.rounds += 1
        if answer.asked == NEWEST:
            self.newest = answer.stamp
            self._narrow(Answer(answer.stamp, answer.offset, answer.stamp))
            self.far = Answer(answer.stamp + 1, self.end, NONE)
            self._narrow(self.far)
        else:
            self._narrow(answer)

    def _narrow(self, answer: Answer) -> None:
        if self.done:
            return
        self.is_past = answer.offset >= self.target
        if answer.offset == self.target and answer.stamp >= 0:
            self.high, self.high_offset, self.high_stamp = answer.stamp, answer.offset, answer.stamp
            self._find(answer.stamp)
        elif answer.offset >= self.target:
            if self.high is None or answer.asked < self.high:
                self.high, self.high_offset, self.high_stamp = answer.asked, answer.offset, answer.stamp
        elif answer.stamp > self.low:
            self.low, self.low_offset = answer.stamp, answer.offset
        self._conclude()

    def _conclude(self) -> None:
        if self.done:
            return
        if self.low >= self.ceiling:
            self._fail("an earlier record has a timestamp from the future")
        elif self.high is not None and self.high <= max(self.low + TOLERANCE, 0):
            self._close(self.high)

    def _close(self, high: int) -> None:
        """End where the bracket is narrow: the record is as old as the previous one, or else the next existing one."""
        if self.gaps and self.high_stamp > self.low + TOLERANCE:
            if high <= self.low + 1 or self.low < 0:
                self._find(self.high_stamp)
        elif self.low >= 0:
            self._find(self.low)
        else:
            self._fail("the record has no timestamp")

    def _find(self, stamp: int) -> None:
        self.done = True
        if stamp >= self.ceiling:
            self._fail("the record has a timestamp from the future")
        else:
            self.stamp = stamp

    def _fail(self, why: str) -> None:
        self.done, self.why = True, why

    def ask(self) -> int:
        """Return the time of the next request."""
        if self.rounds == 0 and self.guess is not None:
            wanted = self.guess + TOLERANCE // 2
        elif self.low < 0:
            return 0
        elif self.target == self.low_offset + 1:
            wanted = self.low + 1  # the next one: its own timestamp, or that of the previous one
        elif self.high is None and self.newest is None:
            return NEWEST
        elif self.rounds % 3 == 2 or self._top() - self.low < 2 * TOLERANCE:
            wanted = (self.low + self._top()) // 2
        else:
            wanted = self._interpolate()
        return min(max(wanted, self.low + 1, 0), self._top() - (self.high is not None))

    def _top(self) -> int:
        return self.ceiling if self.high is None else self.high

    def _interpolate(self) -> int:
        """Interpolate by offsets, half the tolerance towards the side opposite to the last response."""
        end = self.end if self.high is None else self.high_offset
        span = max(end - self.low_offset, 1)
        part = min(max(self.target - self.low_offset, 0), span)
        wanted = self.low + (self._top() - self.low) * part // span
        return wanted + (-TOLERANCE // 2 if self.is_past else TOLERANCE // 2)

    def remember(self) -> Sequence[Answer]:
        """Return the responses that a later search close by can start from."""
        kept = []
        if self.low >= 0:
            kept.append(Answer(self.low, self.low_offset, self.low))
        if self.high is not None:
            kept.append(Answer(self.high, self.high_offset, self.high_stamp))
        if self.far is not None:
            kept.append(self.far)
        return kept
