"""Integration tests reconcile in process: an installed operator pauses meanwhile, and its CRDs are those of this tree."""

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext

import kubernetes
import pytest
import urllib3

import platform_switch
from integration.apiserver import ApiServer
from integration.bench import Bench
from integration.brokers import TLS_USERS, USERS
from integration.connect_servers import ConnectServers, start_connect
from lab import acls
from lab.broker import Broker
from lab.paths import KUBECONFIG, REPOSITORY


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the tests that measure time: in `make test` the cluster has no other work yet."""
    items.sort(key=lambda item: item.path.stem != "test_lag_accuracy")


@pytest.fixture(scope="session", autouse=True)
def alone_with_the_cluster(request: pytest.FixtureRequest) -> Iterator[None]:
    needed = any(item.get_closest_marker("clusterless") is None for item in request.session.items)
    with platform_switch.without_operator() if needed else nullcontext():
        yield


@pytest.fixture(scope="session")
def server(alone_with_the_cluster: None) -> Iterator[ApiServer]:
    """A namespace of the API server, which has the CRDs."""
    try:
        server = ApiServer(KUBECONFIG, f"crds-{uuid.uuid4().hex[:8]}")
        with server.own_namespace():
            server.install(REPOSITORY / "crds" / "generated")
            yield server
    except (kubernetes.config.ConfigException, urllib3.exceptions.HTTPError) as error:
        pytest.fail(
            f"no cluster answers at {KUBECONFIG} ({type(error).__name__}); run `make up`", pytrace=False
        )


@pytest.fixture(scope="session")
def shared_broker() -> Iterator[Broker]:
    """A broker for all files that need no other settings, because each takes three seconds of processor time. Names of topics differ."""
    with Broker() as running:
        yield running


@pytest.fixture(scope="session")
def acl_broker() -> Iterator[Broker]:
    """The same with log-ins and ACLs. A test grants what its user may do, which replaces what that user could do before."""
    with Broker(users=USERS, properties=acls.PROPERTIES) as running:
        yield running


@pytest.fixture(scope="session")
def tls_broker() -> Iterator[Broker]:
    """The same with TLS besides. Each file has its own prefix of topics."""
    with Broker(users=TLS_USERS, tls=True, properties=acls.PROPERTIES) as running:
        yield running


@pytest.fixture(scope="session")
def connect_servers() -> Iterator[ConnectServers]:
    """Workers of Kafka Connect and their broker. Each start takes four seconds of processor time; use them with `leave_nothing`."""
    with start_connect("postgres", "mariadb") as servers:
        yield servers


@pytest.fixture
async def bench(server: ApiServer) -> AsyncIterator[Bench]:
    async with Bench.open() as bench:
        yield bench
