"""What the tests on the whole cluster share: the installed platform, and pipelines that several of them look at.

A driver takes its time to start, so tests share pipelines. Each test leaves the pipeline running and can be run alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import platform_switch
from demo import platform as installation
from e2e.driver_watch import DriverWatch
from e2e.ledger import Ledger
from e2e.place import Place
from lab import kafka, kube

_FIRST = ("test_lab", "test_flights")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run first what takes the cluster down or wants it for itself."""
    items.sort(
        key=lambda item: next((i for i, name in enumerate(_FIRST) if name in item.nodeid), len(_FIRST))
    )


@pytest.fixture(scope="session")
def platform() -> Iterator[None]:
    """The cluster with the chart installed, for all namespaces, in a namespace with restricted pod security."""
    with platform_switch.with_operator():
        installation.start_lab()
        kube.apply([kube.namespace(platform_switch.NAMESPACE, "restricted")])
        installation.install_chart()
        yield


@dataclass(frozen=True)
class Counting:
    """A pipeline that counts while records are written all the time, and what watches over it."""

    place: Place
    ledger: Ledger
    drivers: DriverWatch

    def check(self) -> None:
        """Whatever happened: all that was written before is counted once, and no two drivers were alive."""
        try:
            self.ledger.catch_up()
        except AssertionError as error:
            self.place.fail(str(error))
        self.drivers.check()


@pytest.fixture(scope="session")
def running_count(platform: None) -> Iterator[Counting]:
    """The counting pipeline, Ready, with everything around it made from manifests."""
    place = Place.create("count")
    with DriverWatch(place.name) as drivers:
        place.apply(place.render("counting.yaml"))
        place.await_ready("topics.kappa-platform.io/events", 60)
        place.await_ready("topics.kappa-platform.io/counted", 60)
        source, result = f"{place.name}-events", f"{place.name}-counted"
        with Ledger(kafka.host_bootstrap(), source, result) as ledger:
            place.await_ready("pipeline/counts")
            ledger.pause()
            yield Counting(place, ledger, drivers)
    place.remove()


@pytest.fixture
def counting(running_count: Counting) -> Iterator[Counting]:
    """The counting pipeline, with records coming in while the test runs."""
    running_count.ledger.resume()
    yield running_count
    running_count.ledger.pause()
