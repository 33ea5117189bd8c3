"""More executors while a driver replays, and those of the spec afterwards, without a restart (ADR 95).

Spark removes an executor without loss where it runs no task, and where no job needs what it has shuffled. So executors are removed
only at a moment without a job, as between two batches of a query. In a hold all queries are at rest.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import structlog
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision
from kappa_pipelines.executors import find_executors, find_replay_executors
from kappa_pipelines.failures.refusals import explain_refusal

_REFUSAL_SECONDS = 15
"""Spark requests an executor again each second, or later while others start."""
_MOST_FAILURES = "spark.executor.maxNumFailures"

log = structlog.get_logger()


class Scheduler(Protocol):
    """The executors of a driver, as Spark's scheduler knows them."""

    def list_executors(self) -> list[str]:
        """Return the ids of those that have registered and are not about to be removed."""

    def request_total(self, number: int) -> None:
        """Request so many in all. More are created; those that run stay."""

    def is_at_rest(self) -> bool:
        """Return whether no job runs."""

    def remove_idle(self, executors: list[str]) -> None:
        """Remove those of these that run no task, and replace none of them."""


class SparkScheduler:
    """The scheduler of a session. Each method raises Py4JError where the JVM is gone."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._context: Any = spark.sparkContext._jsc.sc()

    def list_executors(self) -> list[str]:  # noqa: D102 - see Scheduler
        backend, found = self._context.schedulerBackend(), self._context.getExecutorIds()
        ids = [found.apply(number) for number in range(found.size())]
        return [each for each in ids if backend.isExecutorActive(each)]

    def request_total(self, number: int) -> None:  # noqa: D102 - see Scheduler
        to_map = self._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap
        self._context.requestTotalExecutors(number, 0, to_map(self._jvm.java.util.HashMap()))

    def is_at_rest(self) -> bool:  # noqa: D102 - see Scheduler
        return bool(self._context.dagScheduler().activeJobs().isEmpty())

    def remove_idle(self, executors: list[str]) -> None:  # noqa: D102 - see Scheduler
        ids = self._jvm.java.util.ArrayList()
        for each in executors:
            ids.add(each)
        wanted = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(ids)
        # They are not replaced, as the total was requested before; a removal is no failure; and no task is killed.
        self._context.schedulerBackend().killExecutors(wanted, False, False, False)


def find_refusal(spark: SparkSession) -> str:
    """Return why the API server refuses executors now; empty where it does not."""
    jvm: Any = spark._jvm
    return explain_refusal(str(jvm.kappa.start.ExecutorPods.findRefusal(_REFUSAL_SECONDS)))


@dataclass
class Scaling:
    """How many executors a driver has: `own` by its spec, and `more` of them while it replays, or 0 for as many."""

    scheduler: Scheduler
    own: int
    more: int = 0
    _wanted: int | None = None
    _is_above: bool = False

    @property
    def is_lowering(self) -> bool:
        """Return whether there were more than wanted at the last step."""
        return self._is_above

    def step(self, *, replays: bool) -> None:
        """Request what is wanted now, and remove what is above it at a moment without a job. One that registers late is removed by a later step."""
        if self.more == 0:
            return
        wanted = self.more if replays else self.own
        try:
            if wanted != self._wanted:
                self.scheduler.request_total(wanted)
                log.info("executors", wanted=wanted)
                self._wanted = wanted
            found = self.scheduler.list_executors()
            self._is_above = len(found) > wanted
            if self._is_above and self.scheduler.is_at_rest():
                # The oldest stay: they have most of the state.
                self.scheduler.remove_idle(sorted(found, key=int)[wanted:])
        except Py4JError as error:  # the queries fail if the JVM is gone
            log.warning("the number of executors cannot be changed", error=str(error)[:300])


def build_scaling_settings(revision: Revision, replay: ReplayProfile | None) -> dict[str, str]:
    """Return the settings of a session that may get more executors.

    Spark counts a pod that a quota refuses as a failed executor, and ends the driver after some of them: three with one executor.
    """
    is_set = _MOST_FAILURES in revision.spark_conf
    return {_MOST_FAILURES: str(2**31 - 1)} if find_replay_executors(revision, replay) and not is_set else {}


def build_scaling(spark: SparkSession, revision: Revision, replay: ReplayProfile | None) -> Scaling:
    """Return the executors of a driver."""
    return Scaling(SparkScheduler(spark), find_executors(revision), find_replay_executors(revision, replay))
