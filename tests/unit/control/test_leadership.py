"""Of several replicas one acts; another takes over when it stops renewing, whatever the clocks say."""

from typing import Any

import pytest

from fakes.cluster import FakeCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.leadership import Elector, LeaseView, may_take
from kappa_operator.errors import ApiUnavailable

LEASE = ObjectRef("coordination.k8s.io/v1", "Lease", "kappa-system", "kappa-operator")


class Clock:
    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class CutOff(FakeCluster):
    """A cluster that can be cut off."""

    cut = False

    async def get(self, ref: ObjectRef) -> dict[str, Any] | None:
        if self.cut:
            raise ApiUnavailable("no route to host")
        return await super().get(ref)


def elector(cluster: FakeCluster, identity: str, clock: Clock) -> Elector:
    return Elector(cluster, LEASE, identity, clock, duration=10.0)


async def test_the_first_replica_makes_the_lease_and_leads() -> None:
    cluster, clock = FakeCluster(), Clock()
    first = elector(cluster, "first", clock)
    await first.attempt()
    body = cluster.read(LEASE)
    assert first.leading
    assert body is not None
    assert body["spec"]["holderIdentity"] == "first"


async def test_a_second_replica_waits_while_the_first_renews() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = elector(cluster, "first", clock), elector(cluster, "second", clock)
    for _ in range(20):
        await first.attempt()
        await second.attempt()
        clock.now += 2.0
        assert (first.leading, second.leading) == (True, False)


async def test_a_replica_takes_over_after_the_lease_ran_out_and_before_15_seconds() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = elector(cluster, "first", clock), elector(cluster, "second", clock)
    await first.attempt()
    died_at = clock.now
    while not second.leading:
        await second.attempt()
        clock.now += 2.0
    assert 10.0 < clock.now - died_at <= 15.0


async def test_the_old_leader_steps_down_before_the_new_one_may_act() -> None:
    cluster, clock = CutOff(), Clock()
    first, second = elector(cluster, "first", clock), elector(cluster, "second", clock)
    await first.attempt()
    while not second.leading:
        assert not (first.leading and second.leading)
        await second.attempt()
        clock.now += 0.5
    assert not first.leading


async def test_the_lease_counts_transitions() -> None:
    cluster, clock = FakeCluster(), Clock()
    await elector(cluster, "first", clock).attempt()
    second = elector(cluster, "second", clock)
    await second.attempt()
    clock.now = 11.0
    await second.attempt()
    body = cluster.read(LEASE)
    assert body is not None
    assert (body["spec"]["holderIdentity"], body["spec"]["leaseTransitions"]) == ("second", 1)


async def test_a_leader_that_leaves_gives_the_lease_back_at_once() -> None:
    cluster, clock = FakeCluster(), Clock()
    first, second = elector(cluster, "first", clock), elector(cluster, "second", clock)
    await first.attempt()
    await second.attempt()
    await first.release()
    await second.attempt()
    assert (first.leading, second.leading) == (False, True)


async def test_a_leader_that_leaves_without_the_api_server_ends_without_an_error() -> None:
    cluster, clock = CutOff(), Clock()
    first = elector(cluster, "first", clock)
    await first.attempt()
    cluster.cut = True
    await first.release()
    assert not first.leading


async def test_a_leader_that_is_cut_off_stops_leading_by_its_own_clock() -> None:
    cluster, clock = CutOff(), Clock()
    first = elector(cluster, "first", clock)
    await first.attempt()
    cluster.cut = True
    clock.now = 6.0
    with pytest.raises(ApiUnavailable):
        await first.attempt()
    assert first.leading
    clock.now = 7.0
    assert not first.leading


def test_the_clock_of_the_holder_does_not_matter_only_the_time_without_renewal() -> None:
    view = LeaseView(holder="other", version="1", seen_at=100.0, duration=10.0)
    assert not may_take(view, "me", 110.0)
    assert may_take(view, "me", 110.1)


def test_a_lease_without_a_holder_is_taken_at_once() -> None:
    assert may_take(LeaseView(holder="", version="1", seen_at=0.0, duration=10.0), "me", 0.0)
