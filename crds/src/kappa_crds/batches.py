"""What bounds a batch of a pipeline (ADR 96): the driver acts by it, and `status.tuning` explains it."""

from collections.abc import Mapping

from kappa_crds.pipeline import PipelineSpec, Trigger
from kappa_crds.quantities import parse_duration
from kappa_crds.replay import REPLAY_RECORDS

NATIVE_KAFKA = "spark.sql.kappa.nativeKafka"
"""Set to false in `sparkConf`, Spark's own data source reads and writes topics. Only the Java module can measure batches."""
BATCH_SECONDS = 20.0
"""How long a batch is to take where nothing else bounds it."""
TRANSACTION_RECORDS = 200_000
"""Records of a batch between transactions, unless one of these has more, or the spec has another number."""
_RECORDS_PER_CORE = 100_000


def is_enabled(conf: Mapping[str, str]) -> bool:
    """Return whether the settings of Spark leave topics to the Java module, where it can read and write them."""
    return conf.get(NATIVE_KAFKA, "true").lower() == "true"


def is_native(trigger: Trigger, conf: Mapping[str, str]) -> bool:
    """Return whether the Java module reads and writes topics in streams; `conf` are settings of Spark."""
    return trigger.real_time is None and is_enabled(conf)


def is_timed(spec: PipelineSpec, conf: Mapping[str, str]) -> bool:
    """Return whether batches are bounded by the time that they take: where the spec has no bound, and the Java module reads topics.

    Not where some source has batches of whole transactions: the time of a batch would not follow from the bound of the others.
    """
    is_free = spec.trigger.max_records is None and not spec.reads_transactions
    return is_free and is_native(spec.trigger, conf)


def find_seconds(trigger: Trigger) -> float:
    """Return how many seconds a batch is to take that its time bounds."""
    return max(BATCH_SECONDS, parse_duration(trigger.interval or "0s"))


def find_most_records(trigger: Trigger, executor_cores: int) -> int:
    """Return the maximum number of records in a batch, over all sources; 0 cores where tasks run in the driver."""
    return trigger.max_records or max(REPLAY_RECORDS, _RECORDS_PER_CORE * executor_cores)
