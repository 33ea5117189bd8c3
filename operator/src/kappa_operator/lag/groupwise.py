"""Evaluates all group partitions of a policy, each together with the rest of its group."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from kappa_operator.lag.evaluate import WELL, Verdict, advance, is_alive, judge
from kappa_operator.lag.history import Standing
from kappa_operator.lag.model import Sample, Share, Sweep
from kappa_operator.lag.rules import Rules

FORGOTTEN_AFTER = 3600.0
"""Seconds after which a group partition that Kafka no longer lists is forgotten."""


class Judged(NamedTuple):
    """A group partition with its lag history, its verdict, and its last sample, or why it has none in the last sample of the cluster.

    `alert` names the alert that the verdict comes from, where it does not come from a sample.
    """

    share: Share
    standing: Standing
    verdict: Verdict
    sample: Sample | None
    unseen: str | None = None
    alert: str | None = None

    @property
    def rank(self) -> tuple[tuple[int, int], float, int]:
        """Return the rank for sorting: the verdict, then the lag in seconds, then in records."""
        sample = self.sample
        if sample is None:
            return self.verdict.rank, 0.0, 0
        return self.verdict.rank, sample.behind or 0.0, sample.lag


def advance_all(
    standings: Mapping[Share, Standing], sweep: Sweep, rules: Rules, reported: Mapping[str, bool]
) -> dict[Share, Standing]:
    """Return the lag histories after a sample. `reported`: whether groups are alive, where another source than offsets shows it."""
    alive: dict[str, bool | None] = {**find_alive(standings, sweep.samples, rules), **reported}
    after = {
        share: advance(standings.get(share), sample, rules, alive.get(share.group))
        for share, sample in sweep.samples.items()
    }
    for share, standing in standings.items():
        is_old = (sweep.at - standing.at).total_seconds() >= FORGOTTEN_AFTER
        if share not in after and (explain_missing(share, sweep) is not None or not is_old):
            after[share] = standing
    return after


def explain_missing(share: Share, sweep: Sweep) -> str | None:
    """Return why a group partition has no sample, None where nothing prevented it."""
    return sweep.unknown.get(share) or sweep.unread.get(share.group) or sweep.failure


def find_alive(
    standings: Mapping[Share, Standing], samples: Mapping[Share, Sample], rules: Rules
) -> dict[str, bool | None]:
    """Return whether each group moves in any partition, None where that is unknown."""
    looks: defaultdict[str, list[tuple[Standing | None, Sample]]] = defaultdict(list)
    for share, sample in samples.items():
        looks[share.group].append((standings.get(share), sample))
    return {group: is_alive(each, rules) for group, each in looks.items()}


def judge_all(standings: Mapping[Share, Standing], sweep: Sweep, rules: Rules, now: datetime) -> list[Judged]:
    """Return the verdict of each group partition: the unhealthy ones first, the worst before the rest."""
    well: list[Judged] = []
    unwell: list[Judged] = []
    for share, standing in standings.items():
        verdict = judge(standing, now, rules)
        sample = sweep.samples.get(share)
        each = Judged(share, standing, verdict, sample, None if sample else explain_missing(share, sweep))
        (well if verdict == WELL else unwell).append(each)
    return sorted(unwell, key=lambda each: each.rank, reverse=True) + well
