"""Executors by measured rates, on a model of a pipeline whose rate is proportional to its executors."""

import random
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from fakes.context import START
from kappa_crds.lagremediation import ScaleRemediation
from kappa_crds.lagstate import LagState, Severity
from kappa_operator.lag.evaluate import Verdict, advance, judge
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.load import Flow, Load, advance_load, measure_flow
from kappa_operator.lag.model import PartitionLog, Sample
from kappa_operator.lag.rules import Rules, Threshold
from kappa_operator.lagpolicy.remediation.scale import count_regrets, decide_executors, measure_quiet
from unit.control.lag_traces import Partition

STEP = 10.0
RULES = Rules(Threshold(lag=60, patience=120), Threshold(lag=600, patience=60))
REMEDY = ScaleRemediation(min=1, max=6, drain_within="5m", quiet_for="10m", cool_down="3m")


@dataclass
class Model:
    """A pipeline: each executor takes `each` records a second, and new ones begin after `start_up` seconds, in which none takes anything.

    It commits once in `batch` seconds.
    """

    executors: int = 1
    each: float = 1000.0
    start_up: float = 40.0
    batch: float = 0.0
    record: ScaleRemediation = REMEDY
    now: float = 0.0
    down_until: float = 0.0
    partition: Partition = field(default_factory=Partition)
    history: LagHistory | None = None
    load: Load | None = None
    last: datetime | None = None
    fell: datetime | None = None
    regrets: int = 0
    changes: list[tuple[float, int]] = field(default_factory=list)
    behind: list[tuple[float, float]] = field(default_factory=list)

    def run(
        self, seconds: float, rate: float, noise: float = 0.0, dice: random.Random | None = None
    ) -> "Model":
        """Let records come at a rate, which varies by a part `noise` from look to look."""
        end = self.now + seconds
        while self.now < end:
            self.now += STEP
            spread = 1 + noise * (dice.uniform(-1, 1) if dice else 0.0)
            self.partition.produce(self.now, round(rate * spread * STEP))
            if self.now > self.down_until:
                self.partition.consume(self.executors * self.each * STEP)
            if not self.batch or self.now % self.batch == 0:
                self.partition.committed = int(self.partition.position)
            self.look()
        return self

    def look(self) -> None:
        at = START + timedelta(seconds=self.now)
        sample = self.partition.look(self.now, at)
        flow = measure_flow([(self.history, sample)])
        self.history = advance(self.history, sample, RULES, True)
        verdict = judge(self.history, at, RULES)
        self.behind.append((self.now, sample.behind or 0.0))
        self.load = advance_load(
            self.load, flow, self.executors, at, well=verdict.state is LagState.OK,
            span=measure_quiet(self.record, self.regrets), steady=self.is_steady,
        )  # fmt: skip
        change = (
            decide_executors(
                self.record, self.load, flow.waits, verdict, last=self.last, regrets=self.regrets
            )
            if self.is_steady
            else None
        )
        if change is not None:
            if change.executors > self.executors:
                self.regrets = count_regrets(self.record, fell=self.fell, now=at, regrets=self.regrets)
            self.fell = at if change.executors < self.executors else None
            self.executors, self.last = change.executors, at
            self.down_until = self.now + self.start_up
            self.changes.append((self.now, change.executors))

    @property
    def is_steady(self) -> bool:
        return self.now > self.down_until

    @property
    def counts(self) -> list[int]:
        return [count for _, count in self.changes]

    def worst_behind(self, since: float) -> float:
        return max(behind for now, behind in self.behind if now >= since)


def test_when_load_doubles_there_are_more_executors_and_what_waits_is_drained_within_the_target() -> None:
    model = Model().run(600, 800).run(1800, 1600)
    first = model.changes[0][0]
    assert model.counts[0] in (2, 3)
    assert model.worst_behind(first + 40 + 300) < 60, "the target counts from when the executors are there"


@pytest.mark.parametrize("batch", [20.0, 30.0, 60.0])
def test_batches_longer_than_samples_do_not_overstate_the_rate_of_executors(batch: float) -> None:
    model = Model(batch=batch).run(600, 800).run(1800, 1600)
    assert model.load is not None
    assert model.load.each == pytest.approx(1000, rel=0.1)
    assert model.counts[0] in (2, 3)


def test_executors_that_take_long_to_start_are_given_their_time_and_not_blamed_for_it() -> None:
    record = REMEDY.replace(cool_down="1m")
    model = Model(start_up=180, record=record, batch=20).run(600, 800).run(900, 1400)
    assert model.counts == [model.counts[0]]
    assert model.load is not None
    assert model.load.each == pytest.approx(1000, rel=0.1)


def test_when_load_falls_again_there_are_fewer_after_a_quiet_time_and_that_holds() -> None:
    model = Model().run(600, 800).run(1800, 1600).run(3600, 700)
    assert model.counts[-1] == 1
    assert len(model.counts) <= 3
    assert model.worst_behind(model.changes[-1][0] + 60) < 60
    fell = model.changes[-1][0]
    assert fell >= 2400 + 600, "quietFor"


@pytest.mark.parametrize("seed", range(8))
def test_twenty_minutes_of_noisy_load_change_nothing(seed: int) -> None:
    model = Model(executors=2).run(600, 1200).run(1200, 1200, 0.6, random.Random(seed))
    assert model.counts == []


@pytest.mark.parametrize("seed", range(8))
def test_noise_around_what_is_needed_does_not_make_it_flap(seed: int) -> None:
    dice = random.Random(seed)
    model = Model().run(600, 800).run(900, 1600)
    before = len(model.counts)
    model.run(1200, 1600, 0.5, dice)
    assert len(model.counts) - before <= 1, "fewer, once"


def test_fewer_that_were_too_few_again_and_again_are_tried_more_and_more_seldom() -> None:
    model = Model(each=10.0)
    for _ in range(20):
        model.run(400, 26).run(1000, 7)
    assert model.regrets >= 1
    before = len(model.counts)
    for _ in range(20):
        model.run(400, 26).run(1000, 7)
    assert len(model.counts) == before, "it has come to a rest, for a load that comes every 20 minutes"


def test_a_number_that_held_for_long_is_no_regret() -> None:
    at, record = START + timedelta(minutes=20), REMEDY
    assert count_regrets(record, fell=START, now=at, regrets=0) == 0
    assert count_regrets(record, fell=START, now=at - timedelta(seconds=1), regrets=0) == 1
    assert count_regrets(record, fell=START, now=at, regrets=1) == 2
    assert count_regrets(record, fell=None, now=at, regrets=1) == 1


def test_a_stalled_pipeline_gets_no_more_executors() -> None:
    model = Model(each=0.0).run(3600, 100)
    assert model.counts == []


def test_there_never_are_more_or_fewer_than_the_bounds() -> None:
    model = Model(record=ScaleRemediation(min=2, max=3, quiet_for="5m"), executors=2)
    model.run(600, 1500).run(1800, 9000)
    assert set(model.counts) == {3}
    assert set(model.run(40_000, 10).counts) == {2, 3}


def test_nothing_is_decided_before_anything_was_measured() -> None:
    load = Load(START, 1, START, 0.0, 0.0, START)
    assert (
        decide_executors(
            REMEDY, load, 10_000, Verdict(LagState.WARNING, Severity.WARNING), last=None, regrets=0
        )
        is None
    )


def test_nothing_is_decided_while_the_last_change_is_young() -> None:
    load = Load(START, 1, START - timedelta(hours=1), 2000.0, 1000.0, START, each=1000.0)
    warned = Verdict(LagState.WARNING, Severity.WARNING)
    assert (
        decide_executors(REMEDY, load, 10_000, warned, last=START - timedelta(seconds=179), regrets=0) is None
    )
    change = decide_executors(REMEDY, load, 30_000, warned, last=START - timedelta(seconds=180), regrets=0)
    assert change is not None
    assert (change.executors, change.why) == (
        3, "30k records wait and 2k/s come; an executor takes 1k/s, so 3 instead of 1 drain them within 5m",
    )  # fmt: skip


def test_a_change_is_young_until_its_executors_have_been_at_work_for_a_time() -> None:
    load = Load(START, 2, START - timedelta(seconds=179), 2000.0, 1000.0, START, each=500.0)
    warned, last = Verdict(LagState.WARNING, Severity.WARNING), START - timedelta(seconds=600)
    assert decide_executors(REMEDY, load, 30_000, warned, last=last, regrets=0) is None
    since = replace(load, since=START - timedelta(seconds=180))
    assert decide_executors(REMEDY, since, 30_000, warned, last=last, regrets=0) is not None


def test_a_recreated_topic_adds_no_records() -> None:
    at = START + timedelta(seconds=10)
    history = LagHistory(START, START, START, end=500, committed=400)
    log = PartitionLog(0, 20, 20)
    assert measure_flow([(history, Sample(at, log, 10)), (None, Sample(at, log, 5))]) == Flow(10.0, 0, 0, 25)


@settings(max_examples=examples(200), deadline=None)
@given(
    came=st.floats(0, 1e9), taken=st.floats(0, 1e9), each=st.none() | st.floats(1e-6, 1e9),
    waits=st.integers(0, 10**12), state=st.sampled_from(LagState), severity=st.sampled_from(Severity),
    executors=st.integers(1, 50), quiet=st.integers(0, 10**6), regrets=st.integers(0, 100),
)  # fmt: skip
def test_any_measurement_keeps_the_bounds_and_one_direction(
    came: float,
    taken: float,
    each: float | None,
    waits: int,
    state: LagState,
    severity: Severity,
    executors: int,
    quiet: int,
    regrets: int,
) -> None:
    at = START + timedelta(seconds=quiet)
    load = Load(at, executors, START, came, taken, START, peak=came, each=each, well_since=START)
    change = decide_executors(REMEDY, load, waits, Verdict(state, severity), last=None, regrets=regrets)
    if change is not None:
        assert REMEDY.min <= change.executors <= REMEDY.max
        assert change.executors != executors
        assert (change.executors > executors) == (severity is not Severity.NONE)


def test_a_load_is_read_back_as_it_was_written() -> None:
    model = Model().run(900, 1600)
    assert model.load is not None
    assert Load.from_json(model.load.to_json()) == model.load
    with pytest.raises(ValueError, match="for Load"):
        Load.from_json('{"at": "2026-01-01T00:00:00+00:00"}')
