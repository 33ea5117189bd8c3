"""How many executors and cores a driver has, by its revision, and how many while it replays ([ADR 95])."""

import math
import re

from kappa_crds.replay import ReplayProfile
from kappa_crds.revision import Revision

_DYNAMIC = "spark.dynamicAllocation.enabled"


def find_executors(revision: Revision) -> int:
    """Return the number of executors of a revision; 0 if tasks run in the driver."""
    if revision.spark_conf.get("spark.master", "local").startswith("local"):
        return 0
    return int(revision.spark_conf.get("spark.executor.instances", "0"))


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
