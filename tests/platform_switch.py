"""Whose turn it is with the cluster's operator: one test session at a time, with it or without it.

End-to-end tests need the installed operator. Integration tests reconcile in process, and an installed operator that
watches all namespaces would do the same work beside them. Each side says what it needs for its whole session and
waits for the other; the lock goes with the process that holds it.
"""

import fcntl
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from lab.errors import LabError
from lab.kube import kubectl
from lab.paths import CACHE
from lab.shell import wait_until

NAMESPACE = "kappa-system"
DEPLOYMENT = "deployment/kappa-operator"
_LABEL = "app.kubernetes.io/name=kappa-operator"
_SECONDS = 120
_held: list[str] = []
"""How this session has the operator; empty where it has not asked yet."""


@contextmanager
def with_operator() -> Iterator[None]:
    """Keep the operator to this session; installing it is the session's own business."""
    with _turn("with it"):
        yield


@contextmanager
def without_operator() -> Iterator[None]:
    """Have no operator act during this session, whether one is installed or not."""
    with _turn("without it"), stopped_operator():
        yield


@contextmanager
def stopped_operator() -> Iterator[None]:
    """Scale an installed operator to nothing, and afterwards to what it was."""
    replicas = count_replicas()
    if replicas == 0:
        yield
        return
    scale(0)
    try:
        yield
    finally:
        scale(replicas)
        kubectl("rollout", "status", DEPLOYMENT, "-n", NAMESPACE, f"--timeout={_SECONDS}s")


def count_replicas() -> int:
    """Return how many replicas the operator should have; 0 where it is not installed."""
    wanted = kubectl(
        *("get", DEPLOYMENT, "-n", NAMESPACE, "--ignore-not-found", "-o", "jsonpath={.spec.replicas}")
    )
    return int(wanted or 0)


def scale(replicas: int) -> None:
    """Set the number of replicas; with none, wait until the last pod is gone."""
    kubectl("scale", DEPLOYMENT, "-n", NAMESPACE, f"--replicas={replicas}")
    if replicas == 0:
        wait_until(lambda: not find_pods(), "the operator's pods are gone", seconds=_SECONDS)


def find_pods() -> list[str]:
    """Return the names of the operator's pods."""
    return kubectl("get", "pods", "-n", NAMESPACE, "-l", _LABEL, "-o", "name").split()


@contextmanager
def _turn(how: str) -> Iterator[None]:
    if _held:
        raise LabError(
            f"this session wants the cluster's operator in two ways, {_held[0]} and {how}, and would wait for itself for ever;"
            " run tests/e2e and tests/integration in two sessions"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "operator.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("waiting for another test session with the operator to end", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        _held.append(how)
        try:
            yield
        finally:
            _held.clear()
