"""What our rules and Burrow's say of the same traces, one after another, and why they differ."""

from dataclasses import replace

import pytest

from fakes.context import START
from kappa_crds.lagstate import Severity
from kappa_operator.lag.evaluate import advance, judge
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.rules import Rules, Threshold
from unit.control.burrow import KEPT, say_burrow
from unit.control.lag_traces import TRACES, Trace, batches, list_looks, stopped

RULES = Rules(Threshold(lag=60, patience=120), Threshold(lag=600, time_to_loss=300, patience=60))


def run_ours(trace: Trace, rules: Rules = RULES) -> list[str]:
    """Return what was said, one after another. At a restart only the JSON of the standing is left."""
    said: list[str] = []
    history: LagHistory | None = None
    for number, _, sample in list_looks(trace):
        if number == trace.restart and history is not None:
            history = LagHistory.from_json(history.to_json())
        history = advance(history, sample, rules, trace.alive)
        verdict = judge(history, sample.at, rules)
        word = verdict.state + ("!" if verdict.severity is Severity.CRITICAL else "")
        said += [word] if said[-1:] != [word] else []
    return said


def run_burrow(trace: Trace) -> list[str]:
    """Return what was said, one after another, once ten commits are known. After a restart none from before is."""
    said: list[str] = []
    first = 0.0
    for number, now, sample in list_looks(trace):
        if number == trace.restart:
            first = now
        known = [commit for commit in trace.commits if first <= commit.at <= now]
        shown = (sample.at - START).total_seconds()
        word = say_burrow(known, shown, sample.log.end)
        if (len(known) >= KEPT or first) and said[-1:] != [word]:
            said.append(word)
    return said


BESIDE = {
    "slow consumer": (["OK", "Warning"], ["OK", "WARN"]),
    "stopped consumer": (["OK", "Warning", "Stopped", "Stopped!"], ["OK", "STOP"]),
    "stuck partition": (["OK", "Warning", "Stalled", "Stalled!"], ["OK", "STALL"]),
    "rewind": (["OK", "Rewound", "Rewound!", "Warning", "OK"], ["OK"]),
    "idle topic": (["OK"], ["OK"]),
    "transaction markers": (["OK"], ["WARN", "STOP"]),
    "bursty but healthy": (["OK"], ["OK"]),
    "retention eats the lag": (["OK", "Warning", "Losing!"], ["OK", "WARN"]),
    "restart in the middle": (["OK", "Warning", "Stopped", "Stopped!"], ["OK", "STOP", "NOTFOUND"]),
    "clock jumps": (["OK"], ["OK", "STOP"]),
    "a job every ten minutes": (["OK"], ["OK"]),
}
"""What was said; `!` is critical. Of Burrow each word once. The same table, with the reasons, is in docs/explanation/lag-states.md."""
SEPARATE = {"a job every ten minutes": Rules(Threshold(lag=900), window=900)}


@pytest.mark.parametrize("name", TRACES)
def test_the_verdicts_of_our_rules_and_burrows_on_a_trace(name: str) -> None:
    ours, burrow = BESIDE[name]
    assert run_ours(TRACES[name](), SEPARATE.get(name, RULES)) == ours
    assert list(dict.fromkeys(run_burrow(TRACES[name]()))) == burrow


def test_a_commit_interval_longer_than_the_window_is_reported_as_stopped() -> None:
    assert "Stopped" in run_ours(batches(), RULES)


def test_a_stopped_group_is_reported_within_the_window_and_two_samples() -> None:
    trace = stopped()
    before = replace(trace, looks=trace.looks[: (600 + 300) // 10])
    after = replace(trace, looks=trace.looks[: (600 + 320) // 10 + 1])
    assert ("Stopped" in run_ours(before), "Stopped" in run_ours(after)) == (False, True)


def test_an_operator_without_samples_for_an_hour_continues_with_its_last_state() -> None:
    trace = stopped()
    trace.jumps = {240: 3600.0}
    assert run_ours(trace) == BESIDE["stopped consumer"][0]
