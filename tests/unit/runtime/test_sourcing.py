"""Event sourcing against what it means: plain functions over a list of commands, whatever the batches are."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kappa_pipelines.decider import Rejected
from kappa_pipelines.transforms import stored
from kappa_pipelines.transforms.functions import UserFunction
from kappa_pipelines.transforms.key_groups import Row, Step
from kappa_pipelines.transforms.projection import Projecting
from kappa_pipelines.transforms.sourcing import Sourcing
from kappa_pipelines.transforms.stored import Kept
from reference.sourcing import project, source_events

HERE = "runtime_accounts"
Commands = Sequence[dict[str, Any]]


def decide(state: Any, command: Any) -> Any:
    """An account: it takes money out in coins of one, and each coin is an event."""
    if command["amount"] == 13:
        raise ValueError("thirteen")
    if command["amount"] > 0:
        return [{"type": "paid in", "amount": command["amount"]}]
    if state is None or state["balance"] < -command["amount"]:
        return Rejected("there is not so much")
    command["amount"] = "changed by the decision, which must not matter"
    return [{"type": "coin", "number": (state or {}).get("coins", 0)}]


def evolve(state: Any, event: Any) -> Any:
    state = state or {"balance": 0, "coins": 0}
    if event["type"] == "coin":
        state["coins"] += 1
    state["balance"] += event.get("amount", -1)
    return state


class Here(UserFunction):
    """A function of this module, which no worker has to import."""

    def load(self) -> Any:
        return {"decide": decide, "evolve": evolve}[self.name]


def build_step(remember: int = 1000, snapshot_every: int | None = None) -> Sourcing:
    return Sourcing(Here("decide", ""), Here("evolve", ""), ("at",), "id", remember, snapshot_every)


def run(step: Step, batches: Iterable[Sequence[Row]]) -> list[Row]:
    """What comes out of batches; state is stored between them."""
    kept: Kept = {}
    made: list[Row] = []
    for batch in batches:
        made += step.advance(kept, batch, 0)
        kept = stored.decode(stored.encode(kept))
    return made


def encode(command: dict[str, Any]) -> Row:
    return json.dumps({"account": command["account"]}), json.dumps(command), json.dumps({"at": command["at"]})


def cut(rows: Sequence[Any], places: Sequence[int]) -> list[Sequence[Any]]:
    bounds = [0, *sorted({place % (len(rows) + 1) for place in places}), len(rows)]
    return [rows[start:end] for start, end in pairwise(bounds)]


def by_account(rows: Iterable[tuple[Any, ...]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for account, *rest in rows:
        found.setdefault(account, []).append(rest)
    return found


commands = st.lists(
    st.fixed_dictionaries(
        {
            "account": st.sampled_from("ab"),
            "amount": st.integers(-3, 5),
            "id": st.one_of(st.none(), st.integers(0, 9)),
        }
    ),
    max_size=25,
).map(lambda found: [{**command, "at": at} for at, command in enumerate(found)])


@settings(max_examples=150, deadline=None)
@given(found=commands, places=st.lists(st.integers(0, 30), max_size=5), random=st.randoms())
def test_batches_and_the_order_of_rows_in_them_change_nothing(
    found: Commands, places: list[int], random: Any
) -> None:
    expected = source_events(
        [dict(command) for command in found],
        key=lambda command: command["account"],
        id=lambda command: command["id"],
        decide=lambda state, command: decide(state, dict(command)),
        evolve=lambda state, event: evolve(state and dict(state), event),
    )
    batches = [random.sample(list(batch), len(batch)) for batch in cut(found, places)]
    rows = run(build_step(), [[encode(command) for command in batch] for batch in batches])
    got = [
        (json.loads(data).get("account", places_of[carried]), sequence, kind, json.loads(data))
        for places_of in [{json.dumps({"at": c["at"]}): c["account"] for c in found}]
        for carried, sequence, kind, _, data, _ in rows
    ]
    assert by_account(got) == by_account(expected)


@settings(max_examples=100, deadline=None)
@given(found=commands, places=st.lists(st.integers(0, 60), max_size=5), random=st.randoms())
def test_a_projection_of_the_events_in_any_order_and_twice_ends_in_the_folded_state(
    found: Commands, places: list[int], random: Any
) -> None:
    made = run(build_step(snapshot_every=2), [[encode(command)] for command in found])
    account = {json.dumps({"at": command["at"]}): command["account"] for command in found}
    events = [(account[c], s, data) for c, s, kind, _, data, _ in made if kind == "event"]
    snapshots = [(account[c], str(s), None, data) for c, s, kind, _, data, _ in made if kind == "snapshot"]
    given_rows = [(key, str(sequence), data, None) for key, sequence, data in events] * 2
    given_rows += random.sample(snapshots, len(snapshots) // 2)
    shuffled = random.sample(given_rows, len(given_rows))
    rows = run(Projecting(Here("evolve", ""), 1), cut(shuffled, places))
    last = {key: (sequence, json.loads(state)) for key, sequence, state, _ in rows}
    assert last == project([(key, json.loads(data)) for key, _, data in events], evolve)
    if not snapshots:
        assert by_account(row[:2] for row in rows) == by_account(event[:2] for event in events)


def build_command(at: int | None, amount: int = 1, account: str | None = "a", id: Any = None) -> Row:
    return encode({"account": account, "at": at, "amount": amount, "id": id})


def test_a_replay_gives_the_same_bytes() -> None:
    rows = [build_command(at, amount) for at, amount in enumerate((5, -1, -1, 13, -9, 2))]
    assert run(build_step(snapshot_every=2), [rows]) == run(build_step(snapshot_every=2), [[r] for r in rows])


def test_a_failing_function_reports_its_line_and_the_aggregate_continues() -> None:
    rows = run(build_step(), [[build_command(1, 5), build_command(2, 13, id=7), build_command(3, -1, id=7)]])
    assert [row[1:3] for row in rows] == [(1, "event"), (1, "error"), (2, "event")]
    assert rows[1][3] == "ValueError"
    assert rows[1][5].startswith("ValueError: thirteen in test_sourcing.py, line "), rows[1][5]
    assert json.loads(rows[1][4])["amount"] == 13


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (build_command(1), "by at, it does not follow the last command"),
        (build_command(0), "by at, it does not follow the last command"),
        (build_command(None), "one of at is NULL"),
        (build_command(2, account=None), "account is NULL"),
    ],
)
def test_a_command_without_a_place_of_its_own_is_an_error(second: Row, said: str) -> None:
    _, error, event = run(build_step(), [[build_command(1)], [second], [build_command(3)]])
    assert error[2] == "error"
    assert said in error[5]
    assert event[1:3] == (2, "event")


def test_the_configured_number_of_identifiers_is_kept() -> None:
    rows = [build_command(at, id=id) for at, id in enumerate("xyxzxy")]
    kinds = [row[2] for row in run(build_step(remember=2), [[row] for row in rows])]
    assert kinds == ["event", "event", "duplicate", "event", "event", "event"]


@pytest.mark.parametrize("made", [None, {"type": "x"}, [{"amount": 1}], ["x"], [{"type": "x", "at": {1}}]])
def test_what_is_no_list_of_events_is_an_error(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "decide", lambda state, command: made)
    ((_, sequence, kind, name, _, _),) = run(build_step(), [[build_command(1)]])
    assert (sequence, kind, name) == (0, "error", "TypeError")


def test_a_snapshot_comes_out_after_so_many_events() -> None:
    rows = run(build_step(snapshot_every=2), [[build_command(at) for at in range(5)]])
    assert [row[1] for row in rows if row[2] == "snapshot"] == [2, 4]
    assert json.loads(rows[-2][4]) == {"balance": 4, "coins": 0}


def test_a_projection_begins_at_a_snapshot_and_waits_for_what_is_missing() -> None:
    step, coin = Projecting(Here("evolve", ""), 1), '{"type": "coin"}'
    batches: list[list[Row]] = [
        [("a", "12", coin, None)],
        [("a", "10", None, '{"balance": 5, "coins": 0}'), ("a", "9", coin, None)],
        [("a", "11", coin, None)],
    ]
    assert [(row[1], json.loads(row[2])["balance"]) for row in run(step, batches)] == [
        (10, 5),
        (11, 4),
        (12, 3),
    ]


def test_an_event_that_cannot_be_folded_is_reported_and_retried() -> None:
    step = Projecting(Here("evolve", ""), 1)
    rows = run(
        step, [[("a", "1", "[]", None)], [("a", "2", '{"type": "coin"}', None)], [("a", None, "{}", None)]]
    )
    assert [row[1] for row in rows] == [1, 1, None, 1]
    assert all(row[2] is None and row[3] for row in rows)
