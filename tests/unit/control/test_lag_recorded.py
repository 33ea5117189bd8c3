"""What our rules and Burrow's say of what was recorded from a real broker with real groups, and what the recordings must show at all."""

from itertools import pairwise

import pytest

from kappa_crds.lagstate import Severity
from kappa_operator.lag.evaluate import advance, judge
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.model import Sample
from kappa_operator.lag.rules import Rules, Threshold
from unit.control.burrow import KEPT, say_burrow
from unit.control.recorded import Recorded, list_scenes, read_recorded

RULES = Rules(
    Threshold(lag=5, patience=2), Threshold(lag=20, time_to_loss=3, patience=2),
    window=8, clear_after=4, silence=8,
)  # fmt: skip
"""As a policy would say it, thirty times as fast: the recordings have a look each half second and a commit each second."""


def run_ours(recorded: Recorded, *, anew: bool = False) -> list[str]:
    """Return what was said, one after another; there is one partition, so whether the group lives is seen in it alone.

    Where it begins `anew` before every look, only the JSON of the standing is left.
    """
    said: list[str] = []
    history: LagHistory | None = None
    for _, sample in recorded.looks:
        if anew and history is not None:
            history = LagHistory.from_json(history.to_json())
        history = advance(history, sample, RULES, alive=False)
        verdict = judge(history, sample.at, RULES)
        word = verdict.state + ("!" if verdict.severity is Severity.CRITICAL else "")
        said += [word] if said[-1:] != [word] else []
    return said


def run_burrow(recorded: Recorded) -> list[str]:
    """Return Burrow's words, each once, from the tenth commit on."""
    said: list[str] = []
    for at, sample in recorded.looks:
        known = [commit for commit in recorded.commits if commit.at <= at]
        if len(known) >= KEPT:
            said.append(say_burrow(known, at, sample.log.end))
    return list(dict.fromkeys(said))


BESIDE: dict[str, tuple[list[str], list[str]]] = {
    "healthy": (["OK"], ["OK", "WARN"]),
    "slow-then-caught-up": (["OK", "Warning", "Warning!", "Warning", "OK"], ["OK", "WARN"]),
    "stopped": (["OK", "Warning", "Stopped", "Stopped!"], ["OK", "STOP"]),
    "rewound-by-reset-offsets": (
        ["OK", "Rewound", "Rewound!", "Warning!", "Warning", "OK"],
        ["OK", "STOP", "REWIND", "WARN"],
    ),
    "producer-stops": (["OK"], ["OK"]),
    "overtaken-by-retention": (["OK", "Warning", "Losing!"], ["OK", "WARN"]),
}
"""What was said; `!` is critical. Of Burrow each word once. The same table, with the reasons, is in docs/explanation/lag-states.md."""


def test_every_scene_was_recorded() -> None:
    assert list_scenes() == sorted(BESIDE)


@pytest.mark.parametrize("scene", BESIDE)
def test_the_verdicts_of_our_rules_and_burrows_on_recorded_traces(scene: str) -> None:
    recorded = read_recorded(scene)
    assert (run_ours(recorded), run_burrow(recorded)) == BESIDE[scene]


@pytest.mark.parametrize("scene", BESIDE)
def test_a_restart_before_every_sample_gives_the_same_states(scene: str) -> None:
    recorded = read_recorded(scene)
    assert run_ours(recorded, anew=True) == run_ours(recorded)


@pytest.mark.parametrize("scene", BESIDE)
def test_samples_are_taken_continuously_with_the_age_of_the_oldest_record(scene: str) -> None:
    looks = read_recorded(scene).looks
    times = [at for at, _ in looks]
    assert max(later - earlier for earlier, later in pairwise(times)) < RULES.silence
    assert [sample for _, sample in looks if sample.lag and sample.behind is None] == []


def test_the_recordings_show_what_they_are_named_for() -> None:
    def read(scene: str) -> list[Sample]:
        return [sample for _, sample in read_recorded(scene).looks]

    rewound = [sample.committed for sample in read("rewound-by-reset-offsets")]
    assert 0 in rewound[10:]
    assert max(sample.lost for sample in read("overtaken-by-retention")) > 1000
    assert len({sample.log.end for sample in read("producer-stops")[-60:]}) == 1
    assert len({sample.committed for sample in read("stopped")[-60:]}) == 1
    slow = [sample.lag for sample in read("slow-then-caught-up")]
    assert max(slow) > 10 * max(slow[-20:])
