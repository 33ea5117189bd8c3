"""A ResourceQuota refuses executors (ADR 100): the pipeline has a reason, its driver waits, and continues once there is room."""

import time
from collections.abc import Iterator

import pytest

from e2e.driver_watch import DriverWatch
from e2e.place import START_SECONDS, Place
from e2e.test_at_least_once import Load, list_executors
from kappa_crds.reasons import Reason

pytestmark = [pytest.mark.timeout(900), pytest.mark.chaos]  # a driver and two executors, one after another
_QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: small}
spec: {hard: {pods: "%d"}}
"""
_BATCH = 1000
_REFUSED_SECONDS = 40
"""Spark requests an executor each second, and three failures, or six with two executors, would end it."""


@pytest.fixture(scope="module")
def place(platform: None) -> Iterator[Place]:
    place = Place.create("quota")
    place.apply(_QUOTA % 1)
    place.apply(place.render("at_least_once.yaml", batch=str(_BATCH)))
    for topic in ("events", "copies"):
        place.await_ready(f"topics.kappa-platform.io/{topic}", 60)
    yield place
    place.empty()


def await_refused(place: Place, status: str, said: str) -> None:
    """Wait until Ready has a status, the reason for refused executors, and the quota with a text in its message."""

    def is_so() -> bool:
        ready = place.ready("Pipeline", "counts")
        return (ready.status, ready.reason) == (status, Reason.EXECUTORS_REFUSED) and said in ready.message

    place.wait(is_so, f"executors are refused, and Ready is {status}", START_SECONDS)
    assert "ResourceQuota 'small' has no room: requested pods=1" in place.ready("Pipeline", "counts").message


def test_a_driver_whose_executors_a_quota_refuses_has_a_reason_and_gets_them_when_there_is_room(
    place: Place,
) -> None:
    load = Load(place)
    with DriverWatch(place.name) as drivers:
        await_refused(place, "False", "the driver waits for its first executor")
        first = place.pipeline().active.generation
        time.sleep(_REFUSED_SECONDS)
        await_refused(place, "False", "the driver waits for its first executor")
        assert place.pipeline().active.generation == first, "the driver continues"

        place.apply(_QUOTA % 2)
        await_refused(place, "True", "executors that run: 1")
        load.fill()
        place.wait(lambda: load.count_rows() >= load.written, "one executor copies the records", 180)
        time.sleep(_REFUSED_SECONDS)
        await_refused(place, "True", "executors that run: 1")

        place.apply(_QUOTA % 3)
        place.await_reason("Pipeline", "counts", Reason.RUNNING, START_SECONDS)
        place.wait(lambda: len(list_executors(place)) == 2, "both executors run", START_SECONDS)
        assert place.pipeline().active.generation == first, "the driver has never been replaced"
        drivers.check()
    assert Reason.EXECUTORS_REFUSED in {reason for reason, _ in place.events("counts")}
