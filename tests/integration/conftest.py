"""Integration tests reconcile in process: an installed operator pauses meanwhile."""

from collections.abc import AsyncIterator, Iterator

import pytest

import platform_switch
from integration.bench import Bench


@pytest.fixture(scope="session", autouse=True)
def alone_with_the_cluster() -> Iterator[None]:
    with platform_switch.without_operator():
        yield


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with Bench.open() as bench:
        yield bench
