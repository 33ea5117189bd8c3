"""Lanes of the tests on the whole cluster: two in one process are as two processes, because each opens the files itself."""

import fcntl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Event

import pytest

from e2e.lanes import Lane

_SECONDS = 30


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def start(pool: ThreadPoolExecutor, lane: Lane, end: Event) -> Future[None]:
    """Start a test that ends when it may; return when it runs."""
    runs = Event()

    def run() -> None:
        with lane.testing():
            runs.set()
            assert end.wait(_SECONDS)

    future = pool.submit(run)
    assert runs.wait(_SECONDS)
    return future


def test_tests_of_two_lanes_run_side_by_side(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    end = Event()
    running = start(pool, Lane(tmp_path), end)
    with Lane(tmp_path).testing():
        assert not running.done()
    end.set()
    running.result(_SECONDS)


def may_enter(folder: Path) -> bool:
    """Return whether a lane could begin a test now."""
    with (folder / "room.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_test_alone_waits_for_the_test_of_the_other_lane_and_lets_no_other_begin(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    one, end, order = Lane(tmp_path), Event(), list[str]()
    running = start(pool, Lane(tmp_path), end)

    def be_alone() -> None:
        with one.testing():
            with one.alone():
                order.append("alone")
                assert not may_enter(tmp_path)
            assert may_enter(tmp_path)

    future = pool.submit(be_alone)
    order.append("the other ends")
    end.set()
    running.result(_SECONDS)
    future.result(_SECONDS)
    assert order == ["the other ends", "alone"]


def test_two_lanes_that_want_to_be_alone_do_not_wait_for_each_other(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    inside = list[str]()

    def be_alone(lane: Lane) -> None:
        with lane.testing(), lane.alone():
            inside.append("in")
            inside.append("out")

    for future in [pool.submit(be_alone, Lane(tmp_path)) for _ in range(2)]:
        future.result(_SECONDS)
    assert inside == ["in", "out"] * 2


def test_a_lane_stays_alone_from_one_test_to_the_next(tmp_path: Path) -> None:
    lane, alone = Lane(tmp_path), ExitStack()
    with lane.testing():
        alone.enter_context(lane.alone())
    assert not may_enter(tmp_path)
    with lane.testing():
        alone.close()
        assert may_enter(tmp_path)


def test_a_lane_waits_for_the_end_of_another_one_that_still_wants_to_be_alone(
    tmp_path: Path, pool: ThreadPoolExecutor
) -> None:
    one, other, order = Lane(tmp_path).begin(), Lane(tmp_path).begin(), list[str]()

    def judge() -> None:
        with one.testing():
            one.await_others()
            order.append("judged")

    judging = pool.submit(judge)
    with other.testing(), other.alone():
        order.append("alone")
    other.close()
    judging.result(_SECONDS)
    assert order == ["alone", "judged"]


def test_pipelines_wait_for_what_changes_all_of_them(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    one, other, order = Lane(tmp_path), Lane(tmp_path), list[str]()

    def have_pipelines() -> None:
        other.have_pipelines()
        order.append("pipelines")

    with one.testing(), one.before_pipelines():
        having = pool.submit(have_pipelines)
        with other.testing():
            order.append("others test without pipelines")
    having.result(_SECONDS)
    assert order == ["others test without pipelines", "pipelines"]


def test_what_is_prepared_once_is_prepared_again_by_the_next_session(tmp_path: Path) -> None:
    assert Lane(tmp_path).prepare_once(lambda: "first") == "first"
    assert Lane(tmp_path).prepare_once(lambda: "second") == "first"
    Lane(tmp_path).forget()
    assert Lane(tmp_path).prepare_once(lambda: "third") == "third"


def test_what_could_not_be_prepared_is_tried_by_the_other_lane(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        Lane(tmp_path).prepare_once(lambda: str(1 // 0))
    assert Lane(tmp_path).prepare_once(lambda: "second") == "second"
