"""State in Python that is written exactly once is reprocessed while records come in, and a real Prometheus sees it.

The comparison finds just the differences that the records up to its cut make, and the result equals a batch over the whole input.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from e2e.place import START_SECONDS, Place
from e2e.test_reprocessing_faults import await_phase
from e2e.test_reprocessing_join import (
    count,
    find_name,
    get_summaries,
    read_rows,
    read_until,
    request,
    writing,
)
from e2e.watching import build_config, monitored
from kappa_crds.reprocessing import ReprocessingPhase
from kappa_monitoring.boards.reprocessings import REPROCESSINGS
from monitored.servers import list_queries

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]  # two drivers start
Phase = ReprocessingPhase
_WARM_UP_SECONDS = 10
_ACCOUNTS = 20


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("python")
    yield place
    place.empty()


def write_entry(namespace: str) -> Callable[[Producer, int], None]:
    """Return what writes an entry of an account."""

    def write(producer: Producer, number: int) -> None:
        account, sequence = number % _ACCOUNTS, number // _ACCOUNTS + 1
        entry = {"account": account, "sequence": sequence, "data": json.dumps({"amount": 1 + number % 4})}
        producer.produce(f"{namespace}-entries", json.dumps(entry).encode(), str(account))

    return write


def fold(numbers: range, *, is_fixed: bool) -> dict[tuple[int, int], int]:
    """Return the balance after each entry, by account and sequence."""
    balances: dict[int, int] = {}
    found = {}
    for number in numbers:
        account, amount = number % _ACCOUNTS, 1 + number % 4
        balances[account] = balances.get(account, 0) + amount * (1 if is_fixed else 1 + amount % 2)
        found[account, number // _ACCOUNTS + 1] = balances[account]
    return found


def test_python_state_that_is_written_exactly_once_is_reprocessed_and_prometheus_sees_it(
    place: Place, tmp_path: Path
) -> None:
    place.apply(place.render("reprocessed_python.yaml"))
    for topic in ("entries", "balances"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    with writing(write_entry(place.name)) as written:
        place.await_ready("pipeline/balances", START_SECONDS)
        time.sleep(_WARM_UP_SECONDS)
        place.patch("kpp/balances", {"pythonFrom": {"configMapRef": {"name": "fixed-rules"}}})
        name = find_name(place, "balances")
        await_phase(place, name, Phase.READY_TO_CUT, 500)
        check_python_comparison(place, name)
        check_dashboard(place, name, tmp_path)
        request(place, name, "Cut")
        await_phase(place, name, Phase.SOAKING, 120)
        (new,) = (each.topic for each in place.pipeline("balances").outputs)
        time.sleep(_WARM_UP_SECONDS)
        request(place, name, "Finish")
        await_phase(place, name, Phase.DONE, 60)
    place.wait(lambda: len(read_rows(new)) >= written[0], "all entries have a balance", 60)
    rows = read_rows(new)
    found = {(row["account"], row["sequence"]): row["balance"] for row in rows}
    assert len(found) == len(rows), "a balance is repeated"
    assert found == fold(range(written[0]), is_fixed=True)
    place.kubectl("delete", "pipeline", "balances", "--timeout=120s", timeout=130)


def check_dashboard(place: Place, name: str, folder: Path) -> None:
    """Fail where a real Prometheus has nothing for a query of the dashboard, or no metric of the driver of the new version."""
    variables = {"namespace": place.name, "reprocessing": name}
    queries = list_queries(build_config(), variables, [REPROCESSINGS])
    queries["side run"] = f'kappa_side_run_generation{{namespace="{place.name}", role="shadow"}}'
    known = {key: query for key, query in queries.items() if "partition_eta" not in query}
    assert len(known) == len(queries) - 1
    with monitored(place, folder) as monitoring:
        assert monitoring.find_empty(known) == {}


def check_python_comparison(place: Place, name: str) -> None:
    """Fail where it found other differences than the balances that both rules make of the entries up to the cut."""
    cut, found = get_summaries(place, name)
    entries = [json.loads(each.value() or b"") for each in read_until(f"{place.name}-entries", cut)]
    keys = {(entry["account"], entry["sequence"]) for entry in entries}
    everything = range(max(sequence for _, sequence in keys) * _ACCOUNTS)
    wrong, right = (fold(everything, is_fixed=is_fixed) for is_fixed in (False, True))
    changed = sum(wrong[key] != right[key] for key in keys)
    assert count(found["log"]) == (changed, 0, 0, 0)
    assert found["log"].equal == len(keys) - changed
    assert changed > 0
