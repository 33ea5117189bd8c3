"""Changes the number of executors of a Spark with three workers, and prints what it saw; a process of its own, as it needs another master."""

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from kappa_pipelines.driver.executors import SparkScheduler

_WAIT_SECONDS, _REPLACED_SECONDS = 60.0, 3.0


def wait_for(condition: Callable[[], bool]) -> bool:
    """Poll until the condition is true; return whether it was in time."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def stay_busy(until: Path) -> None:
    """Be a task until a file exists, or twice as long as anything is waited for."""
    deadline = time.monotonic() + 2 * _WAIT_SECONDS
    while not until.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def main(folder: Path) -> None:
    """Print what was seen as JSON, in the last line."""
    builder = SparkSession.Builder().master("local-cluster[3,1,600]").config("spark.executor.memory", "500m")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    scheduler, seen = SparkScheduler(spark), dict[str, object]()

    def count(number: int) -> bool:
        return wait_for(lambda: len(scheduler.list_executors()) == number)

    seen["three start"] = count(3)
    enough = folder / "enough"
    tasks = spark.sparkContext.parallelize(range(3), 3).map(lambda _: stay_busy(enough))
    job = threading.Thread(target=tasks.count)
    job.start()
    seen["a job runs"] = wait_for(lambda: not scheduler.is_at_rest())
    tracker = spark.sparkContext.statusTracker()
    seen["all are busy"] = wait_for(
        lambda: any(
            stage is not None and stage.numActiveTasks == 3
            for stage in map(tracker.getStageInfo, tracker.getActiveStageIds())
        )
    )
    scheduler.request_total(1)
    scheduler.remove_idle(scheduler.list_executors())
    seen["busy ones stay"] = len(scheduler.list_executors()) == 3
    enough.touch()
    job.join()
    seen["at rest"] = wait_for(scheduler.is_at_rest)
    kept = min(scheduler.list_executors(), key=int)
    scheduler.remove_idle([each for each in scheduler.list_executors() if each != kept])
    seen["one is left"] = count(1)
    time.sleep(_REPLACED_SECONDS)
    seen["none is replaced"] = scheduler.list_executors() == [kept]
    seen["sum"] = spark.range(1000).groupBy().sum().collect()[0][0]
    scheduler.request_total(3)
    seen["three again"] = count(3)
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
