"""The comparisons that a driver is requested to make."""

import threading
import time
from collections.abc import Callable

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary, OutputRange
from kappa_crds.progress import ComparisonProgress, ComparisonState
from kappa_crds.reasons import Reason
from kappa_pipelines.compare.worker import CompareOne, ComparisonWorker
from kappa_pipelines.errors import LostDataError, UnavailableError

_RANGE = OutputRange(topic="out", start={0: 0}, end={0: 1})


def _request(name: str) -> ComparisonRequest:
    return ComparisonRequest(name=name, old=_RANGE, new=_RANGE)


def _wait(worker: ComparisonWorker, condition: Callable[[tuple[ComparisonProgress, ...]], bool]) -> None:
    deadline = time.monotonic() + 5
    while not condition(worker.snapshot()):
        assert time.monotonic() < deadline, worker.snapshot()
        time.sleep(0.005)


def test_requests_are_carried_out_one_after_another_and_once() -> None:
    go, made = threading.Event(), []

    def compare(request: ComparisonRequest, say: Callable[[str], None]) -> ComparisonSummary:
        say("reading")
        go.wait(5)
        made.append(request.name)
        return ComparisonSummary(equal=1)

    worker = ComparisonWorker(compare)
    for name in ("first", "second", "first"):
        worker.request(_request(name))
    _wait(worker, lambda found: found[0].step == "reading")
    assert [each.state for each in worker.snapshot()] == [ComparisonState.RUNNING, ComparisonState.WAITING]
    go.set()
    _wait(worker, lambda found: all(each.state is ComparisonState.DONE for each in found))
    worker.request(_request("first"))
    assert made == ["first", "second"]
    (first, _) = worker.snapshot()
    assert first.summary is not None
    assert first.summary.equal == 1
    assert first.started is not None
    assert first.ended is not None


def fail_with(errors: list[Exception]) -> CompareOne:
    """Return what fails with each error, and then finds nothing."""

    def compare(request: ComparisonRequest, say: Callable[[str], None]) -> ComparisonSummary:
        if errors:
            raise errors.pop(0)
        return ComparisonSummary()

    return compare


AWAY = UnavailableError(Reason.KAFKA_UNAVAILABLE, "Kafka: all brokers are down")


def test_a_comparison_is_tried_again_after_an_error_that_may_end() -> None:
    worker = ComparisonWorker(fail_with([AWAY, AWAY]), pauses=(0.0, 0.0))
    worker.request(_request("a"))
    _wait(worker, lambda found: found[0].state is ComparisonState.DONE)
    errors: list[Exception] = [AWAY, AWAY, LostDataError(Reason.OFFSETS_LOST, "records were deleted"), AWAY]
    worker = ComparisonWorker(fail_with(errors), pauses=(0.0,) * 9)
    worker.request(_request("a"))
    _wait(worker, lambda found: found[0].state is ComparisonState.FAILED)
    assert errors == [AWAY]
    worker = ComparisonWorker(fail_with([AWAY] * 2), pauses=(0.0,))
    worker.request(_request("a"))
    _wait(worker, lambda found: found[0].state is ComparisonState.FAILED)
    failure = worker.snapshot()[0].failure
    assert failure is not None
    assert failure.reason is Reason.KAFKA_UNAVAILABLE


def test_a_driver_that_ends_does_not_wait_for_the_next_attempt() -> None:
    worker = ComparisonWorker(fail_with([AWAY] * 2), pauses=(3600.0,))
    worker.request(_request("a"))
    _wait(worker, lambda found: found[0].step == f"it is tried again after an error: {AWAY.message}")
    worker.abandon()
    _wait(worker, lambda found: found[0].state is ComparisonState.FAILED)


def test_a_failure_is_reported_and_a_repeated_request_tries_again() -> None:
    errors: list[Exception] = [LostDataError(Reason.OFFSETS_LOST, "records were deleted"), ValueError("odd")]
    worker = ComparisonWorker(fail_with(errors), pauses=())
    worker.request(_request("a"))
    _wait(worker, lambda found: found[0].state is ComparisonState.FAILED)
    failure = worker.snapshot()[0].failure
    assert failure is not None
    assert (failure.reason, failure.retryable) == (Reason.OFFSETS_LOST, False)
    worker.request(_request("a"))
    _wait(worker, lambda found: "odd" in str(found[0].failure))
    worker.request(_request("a"))
    _wait(worker, lambda found: found[0].state is ComparisonState.DONE)
    assert worker.snapshot()[0].failure is None


def test_the_oldest_results_are_forgotten() -> None:
    worker = ComparisonWorker(lambda request, say: ComparisonSummary())
    for number in range(110):
        worker.request(_request(f"c{number}"))
        _wait(worker, lambda found: found[-1].state is ComparisonState.DONE)
    names = [each.name for each in worker.snapshot()]
    assert (len(names), names[0], names[-1]) == (100, "c10", "c109")


def test_after_the_end_of_the_driver_no_comparison_begins() -> None:
    made: list[str] = []

    def compare(request: ComparisonRequest, say: Callable[[str], None]) -> ComparisonSummary:
        made.append(request.name)
        return ComparisonSummary()

    worker = ComparisonWorker(compare)
    worker.abandon()
    worker.request(_request("a"))
    time.sleep(0.05)
    assert not made
    assert worker.snapshot()[0].state is ComparisonState.WAITING
