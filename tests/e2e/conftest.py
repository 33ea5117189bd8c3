"""What the tests on the whole cluster share: the installed platform, and pipelines that several of them look at.

A driver takes its time to start, so tests share pipelines. Each test leaves the pipeline running and can be run alone.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from textwrap import indent

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import platform_switch
from e2e.audit import COLLECTED, INSTALLED
from e2e.counting import PASSWORD, USER, Counting, Guarded
from e2e.driver_watch import DriverWatch
from e2e.installation import install, remove_places
from e2e.ledger import SCHEMA, Ledger, encode_protobuf
from e2e.place import Place
from e2e.volume import SmallVolume
from lab import kafka, network
from lab.broker import Broker

_FIRST = ("test_lab", "test_flights", "test_pod_security", "test_tenants", "test_network_policies")
_LAST = ("test_deletion", "test_permissions")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run first the tests that stop the cluster or need all pipelines healthy, and last those that delete shared ones, or go by all that
    happened.
    """

    def find_place(item: pytest.Item) -> int:
        order = (*_FIRST, "", *_LAST)
        return next((i for i, name in enumerate(order) if name and name in item.nodeid), len(_FIRST))

    items.sort(key=find_place)
    config.stash[COLLECTED] = frozenset(item.path for item in items)


@pytest.fixture(scope="session")
def platform(request: pytest.FixtureRequest) -> Iterator[None]:
    """The cluster with the chart installed."""
    with platform_switch.with_operator():
        install()
        request.config.stash[INSTALLED] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}"
        yield
        remove_places(of_this_session=True)


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
    place.empty()


@pytest.fixture
def counting(running_count: Counting) -> Iterator[Counting]:
    """The counting pipeline, with records coming in while the test runs."""
    with running_count.ledger.writing():
        yield running_count


@pytest.fixture(scope="session")
def sasl_broker() -> Iterator[Broker]:
    """A Kafka of the tests' own that wants a password, where pods reach it."""
    with Broker(users={USER: PASSWORD}, address=network.NODE_IP) as broker:
        yield broker


@pytest.fixture(scope="session")
def running_guarded(platform: None, sasl_broker: Broker) -> Iterator[Guarded]:
    """The counting pipeline behind a log-in, Ready, with one executor and workers of Python on it."""
    place = Place.create("guarded")
    admin = AdminClient({"bootstrap.servers": sasl_broker.bootstrap})
    for future in admin.create_topics([NewTopic("events", 4, 1), NewTopic("counted", 2, 1)]).values():
        future.result()
    with SmallVolume(place.name, "small") as volume, DriverWatch(place.name) as drivers:
        values = {"password": PASSWORD, "bootstrap": sasl_broker.sasl_bootstrap, "volume": volume.name}
        place.apply(place.render("guarded.yaml", schema=indent(SCHEMA, " " * 12), **values))
        with Ledger(sasl_broker.bootstrap, "events", "counted", encode_protobuf) as ledger:
            place.await_ready("pipeline/counts")
            ledger.pause()
            yield Guarded(place, ledger, drivers, sasl_broker, volume)
        place.empty()


@pytest.fixture
def guarded(running_guarded: Guarded) -> Iterator[Guarded]:
    """The pipeline behind a log-in, with records coming in while the test runs."""
    with running_guarded.ledger.writing():
        yield running_guarded
