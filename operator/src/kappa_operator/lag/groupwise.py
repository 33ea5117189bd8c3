"""A look at all shares that a policy is about: each is judged beside the rest of its group."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from kappa_operator.lag.evaluate import WELL, Verdict, advance, is_alive, judge
from kappa_operator.lag.model import Sample, Share
from kappa_operator.lag.rules import Rules
from kappa_operator.lag.standing import Standing

FORGOTTEN_AFTER = 3600.0
"""Seconds after which a share that Kafka does not show any more is forgotten."""


class Judged(NamedTuple):
    """A share, what is remembered of it, what can be said now, and the last look at it, if it was seen in the last sweep."""

    share: Share
    standing: Standing
    verdict: Verdict
    sample: Sample | None

    @property
    def rank(self) -> tuple[tuple[int, int], float, int]:
        """Return how bad it is: what can be said, then the lag in seconds, then in records."""
        sample = self.sample
        if sample is None:
            return self.verdict.rank, 0.0, 0
        return self.verdict.rank, sample.behind or 0.0, sample.lag


def advance_all(
    standings: Mapping[Share, Standing],
    samples: Mapping[Share, Sample],
    rules: Rules,
    told: Mapping[str, bool],
    now: datetime,
) -> dict[Share, Standing]:
    """Return the standings after a sweep. `told` says of groups whether they live, where something else than offsets tells it."""
    lives = dict[str, bool | None](told)
    lives |= {
        group: life for group, life in find_lives(standings, samples, rules).items() if group not in told
    }
    after = {
        share: advance(standings.get(share), sample, rules, lives.get(share.group))
        for share, sample in samples.items()
    }
    for share, standing in standings.items():
        if share not in after and (now - standing.at).total_seconds() < FORGOTTEN_AFTER:
            after[share] = standing
    return after


def find_lives(
    standings: Mapping[Share, Standing], samples: Mapping[Share, Sample], rules: Rules
) -> dict[str, bool | None]:
    """Return of each group whether it moves anywhere, None where that is not known."""
    looks: defaultdict[str, list[tuple[Standing | None, Sample]]] = defaultdict(list)
    for share, sample in samples.items():
        looks[share.group].append((standings.get(share), sample))
    return {group: is_alive(each, rules) for group, each in looks.items()}


def judge_all(
    standings: Mapping[Share, Standing], samples: Mapping[Share, Sample], rules: Rules, now: datetime
) -> list[Judged]:
    """Return what can be said of each share: first what is not well, the worst of it before the rest."""
    well: list[Judged] = []
    unwell: list[Judged] = []
    for share, standing in standings.items():
        verdict = judge(standing, now, rules)
        each = Judged(share, standing, verdict, samples.get(share))
        (well if verdict == WELL else unwell).append(each)
    return sorted(unwell, key=lambda each: each.rank, reverse=True) + well
