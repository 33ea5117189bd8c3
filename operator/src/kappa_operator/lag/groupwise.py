"""Evaluates all group partitions of a policy, each together with the rest of its group."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from kappa_operator.lag.evaluate import WELL, Verdict, advance, is_alive, judge
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.model import ClusterSample, GroupPartition, Sample
from kappa_operator.lag.rules import Rules

FORGOTTEN_AFTER = 3600.0
"""Seconds after which a group partition that Kafka no longer lists is forgotten."""


class Judged(NamedTuple):
    """A group partition with its lag history, its verdict, and its last sample, or why it has none in the last sample of the cluster.

    `alert` names the alert that the verdict comes from, where it does not come from a sample.
    """

    pair: GroupPartition
    history: LagHistory
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
    histories: Mapping[GroupPartition, LagHistory],
    sampled: ClusterSample,
    rules: Rules,
    reported: Mapping[str, bool],
) -> dict[GroupPartition, LagHistory]:
    """Return the lag histories after a sample. `reported`: whether groups are alive, where another source than offsets shows it."""
    by_group: defaultdict[str, list[tuple[LagHistory | None, Sample]]] = defaultdict(list)
    for pair, sample in sampled.samples.items():
        by_group[pair.group].append((histories.get(pair), sample))
    alive = {**{group: is_alive(each, rules) for group, each in by_group.items()}, **reported}
    after = {
        pair: advance(histories.get(pair), sample, rules, alive.get(pair.group))
        for pair, sample in sampled.samples.items()
    }
    for pair, history in histories.items():
        is_old = (sampled.at - history.at).total_seconds() >= FORGOTTEN_AFTER
        if pair not in after and (explain_missing(pair, sampled) is not None or not is_old):
            after[pair] = history
    return after


def explain_missing(pair: GroupPartition, sampled: ClusterSample) -> str | None:
    """Return why a group partition has no sample, None where nothing prevented it."""
    return sampled.unknown.get(pair) or sampled.unread.get(pair.group) or sampled.failure


def judge_all(
    histories: Mapping[GroupPartition, LagHistory], sampled: ClusterSample, rules: Rules, now: datetime
) -> list[Judged]:
    """Return the verdict of each group partition: the unhealthy ones first, the worst before the rest."""
    healthy: list[Judged] = []
    unhealthy: list[Judged] = []
    for pair, history in histories.items():
        verdict = judge(history, now, rules)
        sample = sampled.samples.get(pair)
        each = Judged(pair, history, verdict, sample, None if sample else explain_missing(pair, sampled))
        (healthy if verdict == WELL else unhealthy).append(each)
    return sorted(unhealthy, key=lambda each: each.rank, reverse=True) + healthy
