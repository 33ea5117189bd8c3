"""`kappa diff`: compares two topics on this machine, up to their present ends or to given ones."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from pyspark.sql import SparkSession

from kappa_crds.comparison import ComparisonRequest, ComparisonSummary, OutputRange
from kappa_crds.revision import KafkaConnection
from kappa_pipelines.compare.bounds import TopicBounds
from kappa_pipelines.compare.compare import Comparison
from kappa_pipelines.compare.session import count_tasks, name_jobs
from kappa_pipelines.driver.session import start_session
from kappa_pipelines.errors import DriverError
from kappa_pipelines.failures.diagnose import explain
from kappa_pipelines.jars import fetch_jars
from kappa_pipelines.laptop.console import FAILED, UNUSABLE, complain, guard, say
from kappa_pipelines.laptop.session import leave_out_chatter
from kappa_pipelines.revision.settings import DEFAULTS, SESSION_SETTINGS

Build = Callable[[OutputRange, OutputRange], ComparisonRequest]
"""Builds the request from the ranges of both topics."""
_GROUP = "kappa-diff"
_EVERY_SECONDS = 2.0


def main(
    topics: tuple[str, str],
    servers: tuple[str, ...],
    ends: tuple[Mapping[int, int] | None, Mapping[int, int] | None],
    build: Build,
    show: Callable[[ComparisonSummary], None],
    *,
    committed: bool,
) -> int:
    """Compare two topics and show what was found; return 0 if they are equal, 1 if not, 2 if they cannot be compared.

    `ends` are those of the partitions, by default the present ones.
    """

    def compare() -> int:
        kafka = KafkaConnection(bootstrap_servers=servers)
        try:
            bounds = TopicBounds(kafka, committed=committed)
            old, new = (_cut(bounds.find_range(topic), end) for topic, end in zip(topics, ends, strict=True))
            request = build(old, new)
            spark = _start_spark()
            with _show_progress(spark) as note:
                found = Comparison(kafka=kafka, request=request, group=_GROUP).run(spark, note)
        except KeyboardInterrupt:
            say("stopped")
            return UNUSABLE
        except Exception as error:
            failure = error if isinstance(error, DriverError) else explain(error)
            return complain(failure.message)
        show(found)
        return 0 if found.is_equal else FAILED

    return guard(compare)


def _cut(present: OutputRange, end: Mapping[int, int] | None) -> OutputRange:
    """Return a range up to given ends; partitions that are not named are read to their present end."""
    return present if end is None else present.replace(end={**present.end, **end})


def _start_spark() -> SparkSession:
    say("starting Spark …")
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        **DEFAULTS,
        **SESSION_SETTINGS,
        "spark.app.name": _GROUP,
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, fetch_jars())),
    }
    with leave_out_chatter():
        spark = start_session(settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark


@contextlib.contextmanager
def _show_progress(spark: SparkSession) -> Iterator[Callable[[str], None]]:
    """Give a function that takes the present step, and print it with its tasks every two seconds."""
    began, ended = time.monotonic(), threading.Event()
    steps = [""]

    def tick() -> None:
        while not ended.wait(_EVERY_SECONDS):
            done, of = count_tasks(spark, _GROUP)
            tasks = f", {done} of {of} tasks" if of else ""
            say(f"[{time.monotonic() - began:6.1f} s] {steps[0]}{tasks}")

    name_jobs(spark, _GROUP)
    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield lambda step: steps.__setitem__(0, step)
    finally:
        ended.set()
        thread.join()
