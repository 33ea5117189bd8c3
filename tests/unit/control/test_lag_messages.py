"""Messages about the lag of a group partition."""

from datetime import timedelta

import pytest

from fakes.context import START
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.lag.evaluate import Verdict
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.messages import explain, name_pair, render_lag
from kappa_operator.lag.model import GroupPartition, Partition, PartitionLog, Sample
from kappa_operator.lag.rules import Rules, Threshold

RULES = Rules(Threshold(lag=60, records=1000), Threshold(lag=600, time_to_loss=3600))
PAIR = GroupPartition("billing", Partition("orders", 3))
NOW = START + timedelta(minutes=10)
LOG = PartitionLog(100, 5000, 5000)
SAMPLE = Sample(NOW, LOG, 4000, 75.0)
HISTORY = LagHistory(at=NOW, since=START, watched=START, committed=4000, start=100, end=5000, judged=NOW)
GONE = "last sample at 2026-01-01 00:10:00 UTC: the broker does not answer"


def say(
    state: LagState, sample: Sample | None = SAMPLE, history: LagHistory = HISTORY, unseen: str | None = None
) -> str:
    return explain(Judged(PAIR, history, Verdict(state, Severity.WARNING), sample, unseen), RULES, NOW)


STILL = HISTORY._replace(still=START)
OVER = HISTORY._replace(over_warning=START)
WORSE = OVER._replace(over_critical=START)
CASES = [
    ("lag is within the bounds", say(LagState.OK)),
    ("lag of 1k records, 1m15s over spec.warning.lag (1m)", say(LagState.WARNING, history=OVER)),
    ("lag of 2k records, 1m15s over spec.warning.records (1000)", say(LagState.WARNING, SAMPLE._replace(committed=3000), OVER)),
    ("lag of 1k records, 15m over spec.critical.lag (10m)", say(LagState.WARNING, SAMPLE._replace(behind=900.0), WORSE)),
    ("lag of 1k records, 1m15s within the bounds, for less than spec.clearAfter", say(LagState.WARNING)),
    ("lag was over a bound at the last sample", say(LagState.WARNING, None)),
    ("the committed offset went back from 4500 and is 4000", say(LagState.REWOUND, history=HISTORY._replace(rewound_from=4500))),
    ("the committed offset 4000 has not moved for 10m with a lag of 1k records, 1m15s, but the group is alive: it moves in other partitions, or its pipeline runs", say(LagState.STALLED, history=STILL)),
    ("the committed offset 4000 has not moved for 10m with a lag of 1k records, 1m15s; no committed offset of the group moves", say(LagState.STOPPED, history=STILL)),
    ("it moves again, for less than spec.clearAfter, but the group is alive: it moves in other partitions, or its pipeline runs", say(LagState.STALLED)),
    ("50 offsets before 100 were removed before the group read them; its committed offset is 50", say(LagState.LOSING, SAMPLE._replace(committed=50))),
    ("retention removes the oldest of 1k records, 1m15s in 30m", say(LagState.LOSING, SAMPLE._replace(loss=1800.0))),
    ("records were about to be removed; now they are not, for less than spec.clearAfter", say(LagState.LOSING)),
    ("records were removed, or about to be, at the last sample", say(LagState.LOSING, None)),
    (GONE, say(LagState.UNKNOWN, None, unseen="the broker does not answer")),
    ("last sample at 2026-01-01 00:10:00 UTC", say(LagState.UNKNOWN, SAMPLE._replace(at=START))),
    ("the group has no committed offset, and the partition has 4.9k records", say(LagState.UNKNOWN, SAMPLE._replace(committed=None))),
    ("the committed offset 6000 is past the end 5000: the topic was recreated", say(LagState.UNKNOWN, SAMPLE._replace(committed=6000))),
    ("lag of 1k records; the age of the oldest record is unknown", say(LagState.UNKNOWN, SAMPLE._replace(behind=None))),
    ("lag of 1k records, 1m15s over a bound, for an unknown time", say(LagState.UNKNOWN)),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "said"), CASES, ids=[wanted[:40] for wanted, _ in CASES])
def test_the_cause_is_explained_with_figures(wanted: str, said: str) -> None:
    assert said == wanted


def test_a_share_has_a_short_name_and_its_lag_a_short_form() -> None:
    assert (name_pair(PAIR), render_lag(SAMPLE)) == ("billing orders[3]", "1k records, 1m15s")
    assert render_lag(SAMPLE._replace(committed=4999, behind=None)) == "1 record"
