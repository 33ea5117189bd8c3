"""Integration tests reconcile in process: an installed operator pauses meanwhile."""

from collections.abc import Iterator

import pytest

import platform_switch


@pytest.fixture(scope="session", autouse=True)
def alone_with_the_cluster() -> Iterator[None]:
    with platform_switch.without_operator():
        yield
