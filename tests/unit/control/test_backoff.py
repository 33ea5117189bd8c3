"""Pauses between attempts double, are bounded, and differ from key to key."""

from hypothesis import given
from hypothesis import strategies as st

from kappa_operator.backoff import Backoff

DELAYS = Backoff(2.0, 300.0)


def test_a_pause_doubles_up_to_the_longest() -> None:
    pauses = [DELAYS.pause(failures, "a") for failures in range(1, 12)]
    bounds = [min(300.0, 2.0**failures) for failures in range(1, 12)]
    assert all(0.9 * bound <= pause <= bound for pause, bound in zip(pauses, bounds, strict=True))


def test_what_failed_together_is_not_retried_together() -> None:
    assert len({DELAYS.pause(5, name) for name in range(100)}) > 50


def test_a_process_that_starts_again_computes_the_same_pause() -> None:
    assert Backoff(2.0, 300.0).pause(3, "Topic/shop/orders") == DELAYS.pause(3, "Topic/shop/orders")


@given(failures=st.integers(-5, 10**9), elapsed=st.floats(-1e6, 1e12), key=st.text())
def test_every_pause_is_within_its_bounds(failures: int, elapsed: float, key: str) -> None:
    assert 1.8 <= DELAYS.pause(failures, key) <= 300.0
    assert 1.8 <= DELAYS.pause_since(elapsed, key) <= 300.0


def test_the_pauses_of_a_watch_have_no_end() -> None:
    pauses = iter(DELAYS)
    assert all(next(pauses) <= 300.0 for _ in range(1000))
