"""The sizes that the operator chooses, with an explanation of each.

Spark's defaults are made for batch jobs on large clusters: 200 state partitions, a poll of 500 records, almost no
linger. The figures here were measured (docs/benchmarks.md): one state partition per core, two Kafka input splits per core,
and client settings that fill requests. The linger costs no latency: Spark flushes the producer at the end of a task.
"""

import math

from kappa_crds.batches import (
    NATIVE_KAFKA,
    TRANSACTION_RECORDS,
    find_most_records,
    find_seconds,
    is_timed,
)
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.quantities import format_duration, parse_cpu
from kappa_crds.revision import Tuning

CONSUMER = {
    "max.poll.records": "10000",
    "fetch.max.bytes": "67108864",
    "max.partition.fetch.bytes": "8388608",
}
REAL_TIME = {"linger.ms": "0"}
"""In real time no task ends soon, so nothing flushes the producer, and every record would wait for the linger."""
PRODUCER = {"linger.ms": "100", "batch.size": "262144", "compression.type": "lz4", "acks": "all"}


def count_cores(spec: PipelineSpec) -> int:
    """Return how many tasks the pipeline runs at once."""
    executors = spec.resources.executors
    if executors.count == 0:
        return max(1, math.ceil(parse_cpu(spec.resources.driver.cpu)))
    return executors.count * max(1, math.ceil(parse_cpu(executors.cpu)))


def build_tuning(spec: PipelineSpec, pinned_partitions: int | None) -> Tuning:
    """Return the sizes for a pipeline. State partitions stay as they were when the checkpoint was created, unless the spec sets them."""
    cores = count_cores(spec)
    return Tuning(
        shuffle_partitions=spec.state_partitions or pinned_partitions or cores,
        min_partitions=2 * cores if _may_split(spec) else None,
        consumer=CONSUMER,
        producer=PRODUCER if spec.trigger.real_time is None else PRODUCER | REAL_TIME,
    )


def _may_split(spec: PipelineSpec) -> bool:
    """Return whether several tasks may read a partition: not if rows of a key must keep their order, nor in real-time mode."""
    has_key = any(sink.target.key is not None for sink in spec.sinks)
    return spec.trigger.real_time is None and not has_key


def explain_tuning(tuning: Tuning, spec: PipelineSpec) -> tuple[str, ...]:
    """Return each size with its reason, for status and `kappa plan`."""
    cores = count_cores(spec)
    return (
        f"state partitions: {tuning.shuffle_partitions}, for {cores} cores{_explain_partitions(tuning, spec, cores)}; Spark's default is 200",
        _explain_splits(tuning, spec),
        _explain_batch(spec),
        f"consumer: {_list_settings(tuning.consumer)}",
        f"producer: {_list_settings(tuning.producer)}",
    )


def _explain_partitions(tuning: Tuning, spec: PipelineSpec, cores: int) -> str:
    if spec.state_partitions is not None:
        return " (spec.statePartitions)"
    return "" if tuning.shuffle_partitions == cores else " (fixed when the checkpoint was created)"


def _explain_splits(tuning: Tuning, spec: PipelineSpec) -> str:
    if tuning.min_partitions is not None:
        return f"input splits: at least {tuning.min_partitions}, two for each core"
    if spec.trigger.real_time is not None:
        return "input splits: one for each partition, all at once, as real-time mode needs them"
    return "input splits: one for each partition, so that rows of a key keep their order"


def _explain_batch(spec: PipelineSpec) -> str:
    if spec.trigger.real_time is not None:
        return "records of a batch: unbounded, as in real-time mode none waits for it"
    most = find_most_records(spec.trigger, count_cores(spec) if spec.resources.executors.count > 0 else 0)
    if spec.reads_transactions:
        return f"records of a batch: {_explain_transactions(spec, most)}"
    if spec.trigger.max_records is not None:
        return f"records of a batch: {_quote_limit(spec.trigger.max_records)}"
    if not is_timed(spec, spec.spark_conf):
        return f"records of a batch: at most {most}, as {NATIVE_KAFKA} is false"
    seconds = format_duration(find_seconds(spec.trigger))
    return (
        f"records of a batch: as many as take {seconds}, measured by the batches before, and at most {most}"
    )


def _explain_transactions(spec: PipelineSpec, most: int) -> str:
    limit = spec.trigger.max_records
    whole = f"at most {TRANSACTION_RECORDS}" if limit is None else _quote_limit(limit)
    is_mixed = any(source.transactions is None for source in spec.sources)
    others = f"; of each source without transactions at most {max(1, most // len(spec.sources))}"
    return f"{whole}, or one transaction that has more{others if is_mixed else ''}"


def _quote_limit(records: int) -> str:
    return f"at most {records} (spec.trigger.maxRecords)"


def _list_settings(settings: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(settings.items()))
