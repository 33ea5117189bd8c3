"""`kappa cdc snapshot` and `kappa cdc offsets`: what they request, and how they report what comes of it."""

from typing import Any

import pytest

from fakes.cluster import FakeCluster
from fakes.context import build_resource
from kappa_crds.kinds import find_kind
from kappa_operator.cdcsource.objects import CDCSourceResource
from kappa_operator.cli.cdc_requests import (
    build_offsets,
    build_snapshot,
    judge_offsets,
    judge_snapshot,
    parse_conditions,
    rehearse,
    send_offsets,
    send_snapshot,
    stop_snapshot,
)
from kappa_operator.cli.errors import CommandError
from unit.control.sources import REF, SOURCE, SPEC

WANTED = {"request": "one", "tables": [{"table": "public.orders"}]}


def put(cluster: FakeCluster, status: dict[str, Any] | None = None, **spec: Any) -> None:
    body = build_resource("CDCSource", "orders", **{**SPEC, **spec})
    cluster.put(body)
    cluster.patch(REF, status=status or {})


def read(cluster: FakeCluster) -> CDCSourceResource:
    found: CDCSourceResource = find_kind("CDCSource").parse(cluster.read(REF) or {})
    return found


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("id >= 100", [("id", "AtLeast", "100")]),
        ("id>=100 and state='it''s open'", [("id", "AtLeast", "100"), ("state", "Equal", "it's open")]),
        ('"Odd-Name" != -1.5', [("Odd-Name", "NotEqual", "-1.5")]),
        ("at < '2026-01-01 AND more'", [("at", "Less", "2026-01-01 AND more")]),
    ],
)
def test_a_condition_is_comparisons_joined_by_and(text: str, parts: list[tuple[str, str, str]]) -> None:
    assert [(each.column, each.operator.value, each.value) for each in parse_conditions(text)] == parts


@pytest.mark.parametrize(
    "text",
    ["id", "id = 1 OR 1 = 1", "id = 1 AND", "f(id) = 1", "id IN (1, 2)", "id = 1; DROP TABLE orders", "id = 'open"],
)  # fmt: skip
def test_any_other_sql_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="write comparisons of a column with a value"):
        parse_conditions(text)


async def test_a_snapshot_is_requested_by_the_spec_and_replaces_a_request_that_was_stopped() -> None:
    cluster = FakeCluster()
    put(cluster, snapshot={"incremental": {**WANTED, "stop": True}})
    wanted = build_snapshot("two", ["public.lines", "orders"], "id > 1")
    await send_snapshot(cluster, SOURCE, wanted)
    sent = read(cluster).spec.snapshot.incremental
    assert sent == wanted
    assert sent is not None
    assert [each.table for each in sent.tables] == ["public.lines", "orders"]


async def test_only_a_snapshot_that_is_under_way_is_stopped() -> None:
    cluster = FakeCluster()
    put(cluster)
    with pytest.raises(CommandError, match="no incremental snapshot to stop"):
        await stop_snapshot(cluster, SOURCE)
    put(
        cluster,
        {"incremental": {"request": "one", "state": "Done"}},
        snapshot={"incremental": WANTED},
    )
    with pytest.raises(CommandError, match="no incremental snapshot to stop"):
        await stop_snapshot(cluster, SOURCE)
    put(cluster, {"incremental": {"request": "one", "state": "Running"}}, snapshot={"incremental": WANTED})
    await stop_snapshot(cluster, SOURCE)
    sent = read(cluster).spec.snapshot.incremental
    assert sent is not None
    assert (sent.stop, sent.request) == (True, "one")


@pytest.mark.parametrize(
    ("known", "text", "done", "failed"),
    [
        (None, "waiting for the operator", False, False),
        ({"request": "zero", "state": "Done", "message": "m"}, "waiting for the operator", False, False),
        ({"request": "zero", "state": "Running", "message": "m"}, "waiting for the end of another snapshot: m", False, False),
        ({"request": "one", "state": "Waiting", "message": "m"}, "waiting: m", False, False),
        ({"request": "one", "state": "Running", "message": "reads"}, "reads", False, False),
        ({"request": "one", "state": "Done", "message": "read"}, "read", True, False),
        ({"request": "one", "state": "Stopped", "message": "stopped"}, "stopped", True, False),
        ({"request": "one", "state": "Failed", "message": "no key"}, "no key", False, True),
        ({"request": "one", "state": "Superseded", "message": "gone"}, "gone", False, True),
    ],
)  # fmt: skip
def test_the_command_waits_for_its_own_request(
    known: dict[str, Any] | None, text: str, done: bool, failed: bool
) -> None:
    cluster = FakeCluster()
    put(cluster, {"incremental": known} if known else {}, snapshot={"incremental": WANTED})
    outcome = judge_snapshot(read(cluster))
    assert (outcome.message, outcome.done, outcome.failed) == (text, done, failed)


async def test_a_request_about_the_position_replaces_the_one_before() -> None:
    cluster = FakeCluster()
    put(cluster, offsets={"request": "a", "reset": True})
    await send_offsets(cluster, SOURCE, build_offsets("b", "0/1", reset=False))
    assert read(cluster).spec.offsets == build_offsets("b", "0/1", reset=False)
    await send_offsets(cluster, SOURCE, build_offsets("c", "", reset=False))
    assert read(cluster).spec.offsets == build_offsets("c", "", reset=False)


def test_an_answer_counts_for_its_request_only() -> None:
    cluster = FakeCluster()
    answer = {"request": "b", "at": "2026-01-01T00:00:00Z", "message": "no", "refused": True}
    put(cluster, {"offsets": answer})
    assert judge_offsets("c")(read(cluster)).message == "waiting for the operator"
    assert judge_offsets("b")(read(cluster)).failed


@pytest.mark.parametrize(("lsn", "reset"), [("0/1", True), ("1234", False), ("0/123456789", False)])
def test_unusable_positions_are_refused_before_anything_is_sent(lsn: str, reset: bool) -> None:
    with pytest.raises(CommandError, match="--set"):
        build_offsets("a", lsn, reset=reset)


@pytest.mark.parametrize(
    ("state", "lsn", "text", "refused"),
    [
        ("Running", "0/2000", "it would be refused: the position is changed only while", True),
        (
            "Stopped",
            "0/2000",
            "from 0/1000 to 0/2000: transactions that committed between are not read",
            False,
        ),
        ("Stopped", "0/900", "from 0/1000 back to 0/900: changes between are written again", False),
        ("Stopped", "0/1", "it would be refused: the database has no changes before 0/800", True),
        ("Stopped", "", "the position is forgotten: with snapshot mode Initial", False),
    ],
)
def test_a_dry_run_shows_what_a_change_means_or_why_it_is_refused(
    state: str, lsn: str, text: str, refused: bool
) -> None:
    cluster = FakeCluster()
    answer = {"request": "a", "at": "2026-01-01T00:00:00Z", "message": "reported", "position": {"lsn": "0/1000", "txId": "7"}}  # fmt: skip
    put(cluster, {"offsets": answer, "slot": {"name": "s", "confirmed": 0x800}}, state=state)
    shown, is_refused = rehearse(read(cluster), build_offsets("b", lsn, reset=not lsn))
    assert text in shown
    assert is_refused is refused
