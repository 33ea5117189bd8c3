"""A changed pipeline is computed and compared for two of twenty accounts while records come in, and does not cut over."""

import json
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from demo.compare import read_topic
from e2e.place import START_SECONDS, Place
from e2e.test_reprocessing_faults import await_phase, read_status
from e2e.test_reprocessing_join import count, find_name, get_summaries, read_until, request, writing
from kappa_crds.reprocessing import ReprocessingPhase
from lab import kafka

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]  # two drivers start
Phase = ReprocessingPhase
_SELECTED = {"3", "7"}


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("only")
    yield place
    place.empty()


def write_entry(namespace: str) -> Callable[[Producer, int], None]:
    """Return what writes an entry of an account."""

    def write(producer: Producer, number: int) -> None:
        entry = {"account": number % 20, "amount": 1 + number // 20 % 4}
        producer.produce(f"{namespace}-entries", json.dumps(entry).encode(), str(number % 20))

    return write


def test_two_accounts_are_compared_and_the_new_topic_has_only_them(place: Place) -> None:
    place.apply(place.render("reprocessed_only.yaml"))
    for topic in ("entries", "sums"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    with writing(write_entry(place.name)) as written:
        place.await_ready("pipeline/sums", START_SECONDS)
        place.wait(lambda: written[0] > 200, "each account has some entries", 60)
        sql = "SELECT account, sum(amount) AS total FROM entries GROUP BY account"
        place.patch("kpp/sums", {"views": [{"name": "added", "sql": sql, "allowUnboundedState": True}]})
        name = find_name(place, "sums")
        await_phase(place, name, Phase.READY_TO_CUT, 300)
        check_only_comparison(place, name)
        request(place, name, "Abort")
        await_phase(place, name, Phase.ABORTED, 60)
    place.kubectl("delete", "pipeline", "sums", "--timeout=120s", timeout=130)


def check_only_comparison(place: Place, name: str) -> None:
    """Fail where it found other differences than the sums of the selected accounts up to the cut, or the new topic has others."""
    cut, found = get_summaries(place, name)
    old, new = Counter[str](), Counter[str]()
    for message in read_until(f"{place.name}-entries", cut):
        entry = json.loads(message.value() or b"")
        account, amount = str(entry["account"]), entry["amount"]
        new[account] += amount
        old[account] += amount * (1 + amount % 2)
    assert count(found["log"]) == (2, 0, 0, 0)
    assert (found["log"].old_rows, found["log"].new_rows) == (2, 2)
    samples = {
        each.key: (json.loads(each.old or ""), json.loads(each.new or "")) for each in found["log"].samples
    }
    assert samples.keys() == _SELECTED
    for key, (before, after) in samples.items():
        assert (before["total"], after["total"]) == (old[key or ""], new[key or ""])
    records = read_topic(found["log"].new_topic, kafka.host_bootstrap())
    assert {(message.key() or b"").decode() for message in records} == _SELECTED
    comparison = read_status(place, name).comparison
    assert comparison is not None and comparison.message.endswith("; only rows where account IN (3, 7)")
