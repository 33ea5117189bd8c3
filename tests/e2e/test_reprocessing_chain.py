"""Three pipelines that read from each other are reprocessed, cut over and rolled back as one under live writes.

A reader of the last one sees old or new, and so do consumer groups of two of them, which continue at the cut and at the rollback.
"""

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Any

import pytest

from e2e.place import START_SECONDS, Place
from e2e.test_reprocessing import (
    FIXED,
    RIGHT,
    WRONG,
    PollingReader,
    await_phase,
    find_reprocessing,
    get_offsets,
    request,
    writing,
)
from e2e.test_reprocessing_join import Reports
from e2e.test_reprocessing_readers import add_up
from kappa_crds.pipeline_status import RunRole
from kappa_crds.reprocessing import Cut, ReprocessingPhase, ReprocessingStatus
from lab.kafka import host_bootstrap
from lab.resolve import build_resolver
from spark.topics import Topics

pytestmark = [pytest.mark.timeout(1500), pytest.mark.chaos]
CHAIN = {"counts": "prices", "totals": "totals", "tops": "tops"}
GROUPS = ("totals", "tops")
"""The pipelines whose output a consumer group reads."""
KEYS = 12
Sums = dict[str, tuple[int, int, int]]


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("chain")
    first = place.render("reprocessed.yaml").replace(
        "outputs: Delete", f"outputs: Keep, downstream: Reprocess, groups: [{', '.join(name_groups(place))}]"
    )
    place.apply(first)
    place.apply(place.render("downstream.yaml"))
    place.apply(place.render("chain.yaml"))
    place.await_ready("topics.kappa-platform.io/tops", 60)
    yield place
    place.empty()


def name_groups(place: Place) -> tuple[str, ...]:
    """Return the names of the consumer groups."""
    return tuple(f"{place.name}-{name}" for name in GROUPS)


class Group(Reports):
    """A consumer group of an output, with one member, in a thread."""

    def start(self, topic: str) -> None:
        """Let the member read until it is stopped."""
        self.holding = threading.Event()
        self.thread = threading.Thread(target=self.read, args=(topic, self.holding.is_set), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Let the member end once nothing is left."""
        self.holding.set()
        self.thread.join(60)


def stop_groups(place: Place, groups: list[Group], before: datetime | None) -> None:
    """Stop the members of all groups once all drivers hold for them, after an earlier hold where there was one.

    Drivers write with pauses, so a member that may end earlier can be behind.
    """
    place.wait(
        lambda: find_reprocessing(place).holding_for_groups not in (None, before),
        "all hold for the groups",
        120,
    )
    for group in groups:
        group.holding.set()
    for group in groups:
        group.stop()


def find_cuts(status: ReprocessingStatus, field: str) -> dict[str, Cut]:
    """Return the cut of each pipeline, the first one first."""
    cuts = {"counts": getattr(status, field)}
    cuts |= {each.pipeline_ref: getattr(each, field) for each in status.members}
    assert all(cuts.values()), "all cuts are recorded, or none"
    return cuts


def read_values(topic: str, start: int, end: int | None = None) -> list[Any]:
    """Return the values of the only partition of a topic, from an offset up to another one."""
    rows = [
        (each.offset() or 0, json.loads(each.value() or b"")) for each in Topics(host_bootstrap()).read(topic)
    ]
    return [row for offset, row in rows if start <= offset and (end is None or offset < end)]


def read_rows(topic: str, start: int, end: int | None = None) -> list[Any]:
    """Return the rows of the last output in the same way."""
    return [value["row"] for value in read_values(topic, start, end)]


def sum_up(rows: list[Any]) -> Sums:
    """Return the last count and sums of each key."""
    return {row["k"]: (row["n"], row["seqs"], row["total"]) for row in rows}


def await_all(place: Place, role: RunRole) -> None:
    """Wait until each pipeline has made the cut: its other run has this role."""

    def is_made() -> bool:
        return all(role in {run.role for run in place.pipeline(name).runs} for name in CHAIN)

    place.wait(is_made, f"each pipeline has a {role} run", 60)


def list_drivers(place: Place) -> set[str | None]:
    return {run.driver for name in CHAIN for run in place.pipeline(name).runs}


def check_resolved(place: Place, suffix: str) -> None:
    """Fail where an output resolves to another version."""
    found = {build_resolver(place.name, name, topic)().topic for name, topic in CHAIN.items()}
    assert found == {f"{place.name}-{topic}{suffix}" for topic in CHAIN.values()}


def test_a_chain_of_three_is_cut_over_and_rolled_back_as_one(place: Place) -> None:
    with writing(f"{place.name}-events") as written:
        for name in CHAIN:
            place.await_ready(f"pipeline/{name}", START_SECONDS)
        reader = PollingReader(place, output=("tops", "tops"), columns=("row", "n"))
        groups = [Group(name) for name in name_groups(place)]
        for group in groups:
            group.start(group.group)
        time.sleep(5)
        place.patch("kpp/counts", {"views": FIXED})
        await_phase(place, ReprocessingPhase.READY_TO_CUT, 900)
        assert [each.pipeline_ref for each in find_reprocessing(place).members] == ["totals", "tops"]
        drivers = list_drivers(place)
        check_resolved(place, "")
        request(place, "Cut")
        stop_groups(place, groups, None)
        done = await_phase(place, ReprocessingPhase.SOAKING, 180)
        check_resolved(place, ".r1")
        await_all(place, RunRole.SOAKING)
        assert list_drivers(place) == drivers, "no driver was started or stopped"
        cuts = find_cuts(done, "cut")
        check_cut(cuts["tops"])
        assert done.cut is not None
        assert set(done.cut.groups) == set(name_groups(place))
        for group in groups:
            group.start(f"{group.group}.r1")
        time.sleep(15)
        request(place, "Rollback")
        stop_groups(place, groups, done.holding_for_groups)
        rolled = await_phase(place, ReprocessingPhase.ROLLED_BACK, 180)
        check_resolved(place, "")
        back = find_cuts(rolled, "rollback_cut")
        time.sleep(15)
    check_end(place, written[0])
    seen = reader.end()
    assert reader.errors == []
    check_reader(place, [(row, topic) for row, _, topic in seen], cuts["tops"], back["tops"])
    assert rolled.rollback_cut is not None
    assert set(rolled.rollback_cut.groups) == set(name_groups(place))
    for name, group in zip(GROUPS, groups, strict=True):
        group.read(group.group, lambda: True)
        assert [row for _, row in group.found] == list_expected(group.group, cuts[name], back[name])


def check_cut(cut: Cut) -> None:
    """Fail where both versions of the last output do not stand for the same input at the cut."""
    (old, until), (new, begin) = get_offsets(cut.old), get_offsets(cut.new)
    before, after = sum_up(read_rows(old, 0, until["0"])), sum_up(read_rows(new, 0, begin["0"]))
    assert len(before) == KEYS
    assert {key: (n, seqs, seqs * WRONG) for key, (n, seqs, _) in before.items()} == before
    assert {key: (n, seqs, seqs * RIGHT) for key, (n, seqs, _) in before.items()} == after


def check_end(place: Place, written: int) -> None:
    """Wait until the old version has the sums of all records."""
    expected = add_up([(seq, seq * WRONG) for seq in range(written)])
    place.wait(lambda: sum_up(read_rows(f"{place.name}-tops", 0)) == expected, "the sums are exact", 120)


def list_expected(base: str, cut: Cut, back: Cut) -> list[Any]:
    """Return what a group reads: the old version up to the cut, the new one up to the rollback, and the old one from there."""
    (_, until), (_, begin) = get_offsets(cut.old), get_offsets(cut.new)
    (_, back_until), (_, back_begin) = get_offsets(back.old), get_offsets(back.new)
    middle = read_values(f"{base}.r1", begin["0"], back_until["0"])
    assert middle
    return [*read_values(base, 0, until["0"]), *middle, *read_values(base, back_begin["0"])]


def check_reader(place: Place, seen: list[tuple[Any, str]], cut: Cut, back: Cut) -> None:
    """Fail where the reader has not exactly the old rows up to the cut, the new ones up to the rollback, and the old ones from there."""
    base = f"{place.name}-tops"
    assert [topic for topic, _ in groupby(topic for _, topic in seen)] == [base, f"{base}.r1", base]
    (_, until), (_, begin) = get_offsets(cut.old), get_offsets(cut.new)
    (_, back_until), (_, back_begin) = get_offsets(back.old), get_offsets(back.new)
    first = read_rows(base, 0, until["0"])
    middle = read_rows(f"{base}.r1", begin["0"], back_until["0"])
    last = read_rows(base, back_begin["0"])
    rows = [row for row, _ in seen]
    assert middle
    assert rows == [*first, *middle, *last][: len(rows)], "none is lost, repeated or of the other version"
    assert len(rows) > len(first) + len(middle)
    for row, topic in seen:
        assert row["total"] == row["seqs"] * (WRONG if topic == base else RIGHT)
    for key in {row["k"] for row in rows}:
        counts = [row["n"] for row in rows if row["k"] == key]
        assert counts == sorted(set(counts)), "a count was repeated, or went back"
