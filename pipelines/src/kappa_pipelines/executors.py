"""How many executors and cores a driver has, by its revision, how many while it replays ([ADR 95]), and with how many it starts ([ADR 100])."""

import math
import re

from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision

_DYNAMIC = "spark.dynamicAllocation.enabled"
_ALLOCATOR = "spark.kubernetes.allocation.pods.allocator"
_RATIO = "spark.scheduler.minRegisteredResourcesRatio"
_WAITS = (_RATIO, "spark.scheduler.maxRegisteredResourcesWaitingTime")
_SHARE, _SHARE_SECONDS = 0.8, 30.0
"""Those of Spark. A driver that started with the first executor would have all of its state there."""


def find_executors(revision: Revision) -> int:
    """Return the number of executors of a revision; 0 if tasks run in the driver."""
    if revision.spark_conf.get("spark.master", "local").startswith("local"):
        return 0
    return int(revision.spark_conf.get("spark.executor.instances", "0"))


def build_executor_settings(revision: Revision, pod_name: str | None, address: str | None) -> dict[str, str]:
    """Return what a session with executors needs besides the settings of its revision; empty without executors.

    Spark's own allocator counts a pod that the API server refuses as a failed executor. A session does not wait for executors where its
    driver does, which reports meanwhile why there are none.
    """
    if find_executors(revision) == 0:
        return {}
    wanted = {
        _ALLOCATOR: "kappa.start.ExecutorPods",
        _RATIO: None if _is_wait_set(revision) else "0",
        "spark.kubernetes.driver.pod.name": pod_name,
        "spark.driver.host": address,
    }
    return {key: value for key, value in wanted.items() if value is not None}


def are_enough(revision: Revision, found: int, seconds: float) -> bool:
    """Return whether a driver that has waited so many seconds starts with so many executors: with 80 %, or with any after 30 s.

    Where the author of the pipeline sets how long Spark waits, the session has done that, and one is enough.
    """
    is_over = seconds >= _SHARE_SECONDS or _is_wait_set(revision)
    return found >= (1 if is_over else _SHARE * find_executors(revision))


def _is_wait_set(revision: Revision) -> bool:
    return any(key in revision.spark_conf for key in _WAITS)


def find_replay_executors(revision: Revision, replay: ReplayProfile | None) -> int:
    """Return how many executors a driver has while it replays; 0 without more. Where its author has Spark choose their number, Spark does."""
    more, own = 0 if replay is None else replay.executors or 0, find_executors(revision)
    is_dynamic = revision.spark_conf.get(_DYNAMIC, "false").lower() == "true"
    return more if 0 < own < more and not is_dynamic else 0


def count_replay_factor(revision: Revision, replay: ReplayProfile | None) -> int:
    """Return how many times as many executors a driver has while it replays; 1 where it has no more."""
    more = find_replay_executors(revision, replay)
    return math.ceil(more / find_executors(revision)) if more > 0 else 1


def count_cores(revision: Revision) -> int | None:
    """Return how many tasks run at once; None where that is not in the settings."""
    local = re.fullmatch(r"local(?:\[(\d+)\])?", revision.spark_conf.get("spark.master", "local"))
    return int(local[1] or 1) if local else count_executor_cores(revision) or None


def count_executor_cores(revision: Revision) -> int:
    """Return the number of cores of all executors; 0 without executors."""
    return find_executors(revision) * int(revision.spark_conf.get("spark.executor.cores", "1"))
