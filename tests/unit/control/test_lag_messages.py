"""What is said of a share to people."""

from datetime import timedelta

import pytest

from fakes.context import START
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.lag.evaluate import Verdict
from kappa_operator.lag.groupwise import Judged
from kappa_operator.lag.history import Standing
from kappa_operator.lag.messages import explain, name_share, render_lag
from kappa_operator.lag.model import Partition, PartitionLog, Sample, Share
from kappa_operator.lag.rules import Rules, Threshold

RULES = Rules(Threshold(lag=60, records=1000), Threshold(lag=600, time_to_loss=3600))
SHARE = Share("billing", Partition("orders", 3))
NOW = START + timedelta(minutes=10)
LOG = PartitionLog(100, 5000, 5000)
SAMPLE = Sample(NOW, LOG, 4000, 75.0)
STANDING = Standing(at=NOW, since=START, watched=START, committed=4000, start=100, end=5000, judged=NOW)
GONE = "it was seen last at 2026-01-01 00:10:00 UTC: the broker does not answer"


def say(
    state: LagState, sample: Sample | None = SAMPLE, standing: Standing = STANDING, unseen: str | None = None
) -> str:
    return explain(Judged(SHARE, standing, Verdict(state, Severity.WARNING), sample, unseen), RULES, NOW)


STILL = STANDING._replace(still=START)
OVER = STANDING._replace(over_warning=START)
WORSE = OVER._replace(over_critical=START)
CASES = [
    ("all bounds are kept", say(LagState.OK)),
    ("1k records, 1m15s wait, over spec.warning.lag (1m)", say(LagState.WARNING, standing=OVER)),
    ("2k records, 1m15s wait, over spec.warning.records (1000)", say(LagState.WARNING, SAMPLE._replace(committed=3000), OVER)),
    ("1k records, 15m wait, over spec.critical.lag (10m)", say(LagState.WARNING, SAMPLE._replace(behind=900.0), WORSE)),
    ("1k records, 1m15s wait, within the bounds, but not for spec.clearAfter yet", say(LagState.WARNING)),
    ("it was over a bound when it was seen last", say(LagState.WARNING, None)),
    ("the committed offset went back from 4500 and is 4000", say(LagState.REWOUND, standing=STANDING._replace(rewound_from=4500))),
    ("the committed offset 4000 has not moved for 10m while 1k records, 1m15s wait, though the group lives: it moves elsewhere, or its pipeline runs", say(LagState.STALLED, standing=STILL)),
    ("the committed offset 4000 has not moved for 10m while 1k records, 1m15s wait; nothing of the group moves", say(LagState.STOPPED, standing=STILL)),
    ("it moves again, but not for spec.clearAfter yet, though the group lives: it moves elsewhere, or its pipeline runs", say(LagState.STALLED)),
    ("50 offsets before 100 were removed before the group came to them; it is at 50", say(LagState.LOSING, SAMPLE._replace(committed=50))),
    ("retention removes the oldest of 1k records, 1m15s in 30m", say(LagState.LOSING, SAMPLE._replace(loss=1800.0))),
    ("records were about to be removed; it is well again, but not for spec.clearAfter yet", say(LagState.LOSING)),
    ("records were removed, or about to be, when it was seen last", say(LagState.LOSING, None)),
    (GONE, say(LagState.UNKNOWN, None, unseen="the broker does not answer")),
    ("it was seen last at 2026-01-01 00:10:00 UTC", say(LagState.UNKNOWN, SAMPLE._replace(at=START))),
    ("the group has committed nothing, and 4.9k records are there", say(LagState.UNKNOWN, SAMPLE._replace(committed=None))),
    ("the committed offset 6000 is past the end 5000: the topic was made anew", say(LagState.UNKNOWN, SAMPLE._replace(committed=6000))),
    ("1k records wait, and it is not known how old the oldest one is", say(LagState.UNKNOWN, SAMPLE._replace(behind=None))),
    ("1k records, 1m15s wait, over a bound, and it is not known for how long", say(LagState.UNKNOWN)),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "said"), CASES, ids=[wanted[:40] for wanted, _ in CASES])
def test_why_is_said_in_words_with_the_figures(wanted: str, said: str) -> None:
    assert said == wanted


def test_a_share_has_a_short_name_and_its_lag_a_short_form() -> None:
    assert (name_share(SHARE), render_lag(SAMPLE)) == ("billing orders[3]", "1k records, 1m15s")
    assert render_lag(SAMPLE._replace(committed=4999, behind=None)) == "1 record"
