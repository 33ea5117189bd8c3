"""A whole driver in this process, measured from the start of its query until it has committed so many records."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kappa_pipelines.driver.driver import Driver

POLL_SECONDS = 0.25
"""Reports are read no more often: at 50 times a second they slow down what is measured."""


@contextmanager
def running(driver: Driver, deadline: float) -> Iterator[threading.Thread]:
    """Run the driver in a thread, and end it within so many seconds after the block."""
    thread = threading.Thread(target=driver.run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        driver.request_stop()
        thread.join(deadline)


def measure_run(
    driver: Driver, count: int, deadline: float, is_complete: Callable[[], bool] = lambda: True
) -> float:
    """Run the driver until it has committed so many records, and the results are complete; return the seconds that its query took.

    SystemExit after the deadline.
    """
    with running(driver, deadline) as thread:
        begin, end = 0.0, time.monotonic() + deadline
        while thread.is_alive() and time.monotonic() < end:
            queries = driver.record.snapshot({}).queries
            if begin == 0.0 and queries:
                begin = time.monotonic()
            if sum(each.total_input_rows for each in queries) >= count and is_complete():
                return time.monotonic() - begin
            time.sleep(POLL_SECONDS if begin else POLL_SECONDS / 10)
        raise SystemExit(f"the driver did not get through in {deadline:.0f} s: {driver.record.snapshot({})}")
