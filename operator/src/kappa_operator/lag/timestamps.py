"""Finds the timestamp at an offset by questions that Kafka answers from its time index: no record is read.

Kafka says for a time which record is the first one with a timestamp at or after it, `ListOffsets(for_timestamp)`. So what is found is the
newest timestamp that the log has reached at an offset. Where timestamps ascend that is the record's own. A record that came late, with an
older timestamp than the one before it, counts from when it came: that is how long it waits.

What cannot be known is said to be so: a record with a timestamp from the future hides the timestamps of all that come after it, and
records may have none (-1).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TOLERANCE = 800
"""Milliseconds: the answer is found when it is known within this."""
AHEAD = 1000
"""Milliseconds by which a producer's clock may be ahead of ours."""
NONE = -1
"""No timestamp is known."""
NEWEST = -3
"""What ListOffsets is asked for instead of a time, to get the record with the newest timestamp of all."""


class Answer(NamedTuple):
    """What Kafka said: the first record with a timestamp of at least `asked` is at `offset` and has the timestamp `stamp`.

    Where there is no such record `offset` is the end of the log at that time and `stamp` is NONE. All times are Unix time in milliseconds.
    """

    asked: int
    offset: int
    stamp: int


@dataclass(slots=True)
class Search:
    """The search for the timestamp at `target` in a log that reaches from `start` to `end`, as far as it has come.

    `low` is the newest timestamp known of a record before the target, `high` is a time that none of those has reached; None where neither
    is known yet. `ceiling` is a time that no sane timestamp has reached. `gaps` says whether offsets may be missing, as compaction leaves
    them, `is_past` on which side the last answer was. The search is over when `done`; `stamp` is then the answer, or None where it cannot be known, for the reason in `why`.
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
    is_past: bool = False
    rounds: int = 0
    done: bool = False
    stamp: int | None = None
    why: str = ""

    def recall(self, known: Iterable[Answer]) -> None:
        """Take what was answered before, and still holds: a log only grows at its end and goes at its start."""
        for answer in known:
            if answer.offset >= self.target or (answer.stamp >= 0 and answer.offset >= self.start):
                self._narrow(answer)

    def take(self, answer: Answer) -> None:
        """Take the answer to the last question."""
        self.rounds += 1
        if answer.asked == NEWEST:
            self.newest = answer.stamp
            self._narrow(Answer(answer.stamp, answer.offset, answer.stamp))
            self._narrow(Answer(answer.stamp + 1, self.end, NONE))
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
            self._fail("a record before it has a timestamp from the future")
        elif self.high is not None and self.high <= max(self.low + TOLERANCE, 0):
            self._close(self.high)

    def _close(self, high: int) -> None:
        """End where the bracket is narrow: the record is as old as the one before it, or else the next one that is there."""
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
        """Return the time to ask for next."""
        if self.rounds == 0 and self.guess is not None:
            wanted = self.guess + TOLERANCE // 2
        elif self.low < 0:
            return 0
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
        """Aim between the ends by offsets, and half the tolerance to the side that the last answer was not on."""
        end = self.end if self.high is None else self.high_offset
        span = max(end - self.low_offset, 1)
        part = min(max(self.target - self.low_offset, 0), span)
        wanted = self.low + (self._top() - self.low) * part // span
        return wanted + (-TOLERANCE // 2 if self.is_past else TOLERANCE // 2)

    def remember(self) -> Sequence[Answer]:
        """Return the answers that a later search near by can start from."""
        kept = []
        if self.low >= 0:
            kept.append(Answer(self.low, self.low_offset, self.low))
        if self.high is not None:
            kept.append(Answer(self.high, self.high_offset, self.high_stamp))
        return kept
