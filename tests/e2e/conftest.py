"""What the tests on the whole cluster share: the installed platform, and pipelines that several of them look at.

A driver takes its time to start, so tests share pipelines. Each test leaves the pipeline running and can be run alone.
"""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from textwrap import indent

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from xdist import is_xdist_controller, is_xdist_worker
from xdist.scheduler import LoadScopeScheduling

import platform_switch
from e2e.audit import COLLECTED, INSTALLED
from e2e.counting import PASSWORD, USER, Counting, Guarded
from e2e.driver_watch import DriverWatch
from e2e.installation import install, remove_places
from e2e.lanes import Lane
from e2e.ledger import SCHEMA, Ledger, encode_protobuf
from e2e.place import Place
from e2e.volume import SmallVolume
from lab import kafka, network
from lab.broker import Broker

_FIRST = (
    *("test_lab", "test_any_user", "test_refusals", "test_tenant_secrets"),
    *("test_flights", "test_pod_security", "test_tenants", "test_network_policies"),
)
_LAST = ("test_deletion", "test_permissions")
_GUARDED = (
    *("test_lab", "test_refusals", "test_tenant_secrets", "test_flights"),
    *("test_pod_security", "test_tenants", "test_network_policies", "test_faults", "test_canaries"),
)
"""The lane of the pipeline behind a log-in, and of as many others as take the same time. All other files are in that of the counting one."""
_WITHOUT_PIPELINES = ("test_lab", "test_any_user", "test_refusals", "test_tenant_secrets")
"""The files of tests that no change of all pipelines disturbs, and the one that makes it."""
_LANE = pytest.StashKey[Lane]()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have the cluster for all lanes, in the process that starts them."""
    if is_xdist_controller(session):
        with ExitStack() as stack:
            stack.enter_context(have_cluster())
            session.config.add_cleanup(stack.pop_all().close)
    else:
        session.config.stash[_LANE] = Lane().begin()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let tests of another lane that judge all lanes begin. The process itself ends together with theirs."""
    if is_xdist_worker(session):
        session.config.stash[_LANE].close()


class LaneScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each process of `pytest -n 2` a lane, in order, and what judges all of it to the first that has nearly finished."""

    def _split_scope(self, nodeid: str) -> str:
        file = Path(nodeid.partition("::")[0]).stem
        return "last" if file == _LAST[-1] else "guarded" if file in _GUARDED else "counting"


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LaneScheduling:
    """Replace the scheduler of `-n`, which divides the tests of a file."""
    config.option.loadscopereorder = False
    return LaneScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests.

    First come those that stop the cluster, change all pipelines, or need theirs healthy, and last those that delete
    shared pipelines, or judge all that happened.
    """

    def find_place(item: pytest.Item) -> int:
        order = (*_FIRST, "", *_LAST)
        return order.index(item.path.stem if item.path.stem in order else "")

    items.sort(key=find_place)
    config.stash[COLLECTED] = frozenset(item.path for item in items)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Wait where a test of another lane is alone. The time-out of the test begins afterwards."""
    if not is_xdist_worker(item.session):
        return (yield)
    lane = item.config.stash[_LANE]
    if item.path.stem not in _WITHOUT_PIPELINES:
        lane.have_pipelines()
    with lane.testing():
        return (yield)


@contextmanager
def have_cluster() -> Iterator[None]:
    """Keep the operator to this session, and remove the namespaces that it made."""
    with platform_switch.with_operator():
        Lane().forget()
        yield
        remove_places(of_this_session=True)


@pytest.fixture(scope="session")
def lane(request: pytest.FixtureRequest) -> Lane:
    """What to do alone, or after all others."""
    return request.config.stash[_LANE]


@pytest.fixture(scope="session")
def platform(request: pytest.FixtureRequest, lane: Lane) -> Iterator[None]:
    """The cluster with the chart installed."""
    with nullcontext() if is_xdist_worker(request) else have_cluster():
        request.config.stash[INSTALLED] = lane.prepare_once(install)
        yield


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
