"""A pipeline with state that reads a reprocessed output is moved at the cut, and back by the rollback: its sums stay exact under live writes."""

import json
import time
from collections.abc import Iterator

import pytest

from e2e.place import START_SECONDS, Place
from e2e.test_reprocessing import (
    FIXED,
    RIGHT,
    WRONG,
    await_phase,
    get_offsets,
    read,
    request,
    writing,
)
from kappa_crds.inputs import InputTopic
from kappa_crds.reprocessing import Cut, ReprocessingPhase
from lab.kafka import host_bootstrap
from spark.topics import Topics

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("readers")
    place.apply(place.render("reprocessed.yaml").replace("outputs: Delete", "outputs: Keep"))
    place.apply(place.render("downstream.yaml"))
    place.await_ready("topics.kappa-platform.io/totals", 60)
    yield place
    place.empty()


def await_input(place: Place, topic: str) -> InputTopic:
    """Wait until the second pipeline runs and reads this topic."""

    def reads() -> bool:
        return [each.topic for each in place.pipeline("totals").inputs] == [topic]

    place.wait(reads, f"totals reads {topic}", 60)
    place.await_ready("pipeline/totals", START_SECONDS)
    (found,) = place.pipeline("totals").inputs
    return found


def check_move(cut: Cut, found: InputTopic) -> None:
    """Fail where the second pipeline did not move at this cut."""
    assert cut.readers == ("totals",)
    (old, until), (new, begin) = get_offsets(cut.old), get_offsets(cut.new)
    assert found.move is not None
    move = found.move
    assert (move.old, move.until, move.new, move.begin) == (old, until, new, begin)


def read_totals(topic: str) -> dict[str, tuple[int, int, int]]:
    """Return the last count and sums of each key."""
    rows = [json.loads(each.value() or b"") for each in Topics(host_bootstrap()).read(topic)]
    ordered = sorted(rows, key=lambda row: int(row["n"]))
    return {row["k"]: (row["n"], row["seqs"], row["total"]) for row in ordered}


def add_up(rows: list[tuple[int, int]]) -> dict[str, tuple[int, int, int]]:
    """Return count and sums of each key for numbers and prices of records."""
    found: dict[str, tuple[int, int, int]] = {}
    for seq, price in rows:
        n, seqs, total = found.get(f"k{seq % 12}", (0, 0, 0))
        found[f"k{seq % 12}"] = n + 1, seqs + seq, total + price
    return found


def test_a_pipeline_with_state_follows_a_cutover_and_its_rollback_exactly(place: Place) -> None:
    prices = f"{place.name}-prices"
    with writing(f"{place.name}-events") as written:
        place.await_ready("pipeline/counts", START_SECONDS)
        place.await_ready("pipeline/totals", START_SECONDS)
        time.sleep(5)
        place.patch("kpp/counts", {"views": FIXED})
        await_phase(place, ReprocessingPhase.READY_TO_CUT, 300)
        request(place, "Cut")
        done = await_phase(place, ReprocessingPhase.SOAKING, 120)
        assert done.cut is not None
        check_move(done.cut, await_input(place, f"{prices}.r1"))
        time.sleep(10)
        request(place, "Rollback")
        rolled = await_phase(place, ReprocessingPhase.ROLLED_BACK, 120)
        assert rolled.rollback_cut is not None
        (_, until), (_, begin) = get_offsets(done.cut.old), get_offsets(done.cut.new)
        (_, later_until), (_, later_begin) = (
            get_offsets(rolled.rollback_cut.old),
            get_offsets(rolled.rollback_cut.new),
        )
        middle = read(f"{prices}.r1", begin, later_until)
        check_move(rolled.rollback_cut, await_input(place, prices))
        time.sleep(10)

    def read_all() -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        return read(prices, {}, until), read(prices, later_begin)

    place.wait(lambda: sum(map(len, read_all())) + len(middle) >= written[0], "all records have a price", 60)
    first, last = read_all()
    seen = [*first, *middle, *last]
    assert first
    assert middle
    assert last
    assert {price - seq * WRONG for seq, price in (*first, *last)} == {0}
    assert {price - seq * RIGHT for seq, price in middle} == {0}
    seqs = sorted(seq for seq, _ in seen)
    assert seqs == list(range(written[0])), "a record was lost or repeated"
    expected = add_up(seen)
    place.wait(lambda: read_totals(f"{place.name}-totals") == expected, "the sums are exact", 60)
