"""How much comes into topics, from look to look at where their logs end."""

from hypothesis import given
from hypothesis import strategies as st

from kappa_operator.lag.flows import WINDOW, Flows
from kappa_operator.lag.model import Partition, PartitionLog


def log(end: int, start: int = 0) -> PartitionLog:
    return PartitionLog(start, end, end)


def parts(topic: str = "t", **ends: int) -> dict[Partition, PartitionLog]:
    """Return logs by partition; `p3` is partition 3."""
    return {Partition(topic, int(name[1:])): log(end) for name, end in ends.items()}


def test_records_before_the_first_sample_are_not_counted() -> None:
    flows = Flows()
    flows.add(0.0, parts(p0=1000), ())
    assert (flows.totals, flows.rates) == ({"t": 0}, {})


def test_the_partitions_of_a_topic_are_added_up() -> None:
    flows = Flows()
    flows.add(0.0, {**parts(p0=100, p1=0), **parts("u", p0=7)}, ())
    flows.add(30.0, {**parts(p0=160, p1=30), **parts("u", p0=7)}, ())
    assert flows.totals == {"t": 90, "u": 0}
    assert flows.rates == {"t": 3.0, "u": 0.0}


def test_records_that_leave_a_log_change_nothing() -> None:
    flows = Flows()
    flows.add(0.0, {Partition("t", 0): log(100)}, ())
    flows.add(10.0, {Partition("t", 0): log(200, start=180)}, ())
    assert (flows.totals, flows.rates) == ({"t": 100}, {"t": 10.0})


def test_a_log_that_became_shorter_counts_from_there() -> None:
    flows = Flows()
    flows.add(0.0, parts(p0=1000), ())
    flows.add(10.0, parts(p0=400), ())
    assert (flows.totals, flows.rates) == ({"t": 0}, {"t": 0.0})
    flows.add(20.0, parts(p0=500), ())
    assert (flows.totals, flows.rates) == ({"t": 100}, {"t": 5.0})


def test_a_recreated_topic_has_no_rate_before_two_samples() -> None:
    flows = Flows()
    flows.add(0.0, parts(p0=1000), ())
    flows.forget(Partition("t", 0))
    flows.add(10.0, parts(p0=9_000_000), ())
    assert (flows.totals, flows.rates) == ({"t": 0}, {})
    flows.add(20.0, parts(p0=9_000_050), ())
    assert flows.rates == {"t": 5.0}


def test_a_new_partition_counts_from_its_first_sample() -> None:
    flows = Flows()
    flows.add(0.0, parts(p0=10), ())
    flows.add(10.0, parts(p0=20, p1=5000), ())
    assert flows.totals == {"t": 10}


def test_while_a_partition_is_unavailable_there_is_no_rate_and_afterwards_none_is_estimated() -> None:
    flows = Flows()
    flows.add(0.0, parts(p0=0, p1=0), ())
    flows.add(10.0, parts(p0=100), [Partition("t", 1)])
    assert (flows.totals, flows.rates) == ({"t": 100}, {})
    flows.add(20.0, parts(p0=200, p1=9000), ())
    assert (flows.totals, flows.rates) == ({"t": 9200}, {})  # what came meanwhile came, but nobody knows when
    flows.add(30.0, parts(p0=300, p1=9000), ())
    assert flows.rates == {"t": 10.0}


def test_a_rate_covers_the_last_minute_or_the_sample_interval() -> None:
    flows = Flows()
    for second in range(0, 600, 10):
        flows.add(float(second), parts(p0=second * (1 if second < 300 else 5)), ())
    assert flows.rates == {"t": 5.0}
    flows.add(600.0 + 5 * WINDOW, parts(p0=590 * 5), ())
    assert 0.0 <= flows.rates["t"] < 1.0


def test_counters_of_a_recreated_topic_do_not_change() -> None:
    flows = Flows()
    flows.add(0.0, parts(p0=0), ())
    flows.add(10.0, parts(p0=50), ())
    told = flows.totals
    flows.forget(Partition("t", 0))
    assert told == {"t": 50}
    flows.add(20.0, parts(p0=7), ())
    assert (told, flows.totals) == ({"t": 50}, {"t": 0})


def test_a_deleted_topic_has_no_metrics() -> None:
    flows = Flows()
    flows.add(0.0, parts(p0=10), ())
    flows.add(10.0, parts("u", p0=10), ())
    assert (flows.totals, flows.rates) == ({"u": 0}, {})


@given(st.lists(st.tuples(st.integers(0, 10_000), st.booleans(), st.booleans()), max_size=40))
def test_whatever_is_seen_totals_never_fall_and_no_rate_is_negative(
    looks: list[tuple[int, bool, bool]],
) -> None:
    flows, before = Flows(), 0
    for second, (end, unavailable, recreated) in enumerate(looks):
        partition = Partition("t", 0)
        if recreated:
            flows.forget(partition)
            before = 0
        flows.add(
            second * 7.0, {} if unavailable else {partition: log(end)}, [partition] if unavailable else []
        )
        assert flows.totals["t"] >= before
        assert all(rate >= 0 for rate in flows.rates.values())
        before = flows.totals["t"]
