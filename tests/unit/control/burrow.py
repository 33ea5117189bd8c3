"""Burrow's published rules as a small function, to be held beside ours on the same traces.

It is asked once there are ten, as with fewer it says STOP of a group that has just begun.
Source: the page "Consumer Lag Evaluation Rules" of its wiki. It keeps the last ten commits of a partition, each with the lag as it was
then, and says in this order: what lags by nothing is OK; without a commit for longer than the kept commits span it is STOP, unless all was
processed; where lag was zero within the window it is OK; where an offset went back REWIND; where offsets stand and lag does not fall
STALL; where they move and lag never falls WARN.
"""

import itertools
from collections.abc import Sequence

from unit.control.lag_traces import Commit

KEPT = 10


def say_burrow(commits: Sequence[Commit], now: float, end: int) -> str:
    """Return Burrow's word for a partition; `now` is in seconds, `end` the end of the log."""
    window = commits[-KEPT:]
    if not window:
        return "NOTFOUND"
    if window[-1].offset >= end:
        return "OK"
    if now - window[-1].at > window[-1].at - window[0].at:
        return "STOP"
    lags = [max(0, commit.end - commit.offset) for commit in window]
    if 0 in lags or len(window) == 1:
        return "OK"
    pairs = list(itertools.pairwise(window))
    if any(second.offset < first.offset for first, second in pairs):
        return "REWIND"
    if any(later < earlier for earlier, later in itertools.pairwise(lags)):
        return "OK"
    return "STALL" if window[0].offset == window[-1].offset else "WARN"
