"""Builders for the tests about pipelines: a pipeline in any state, its driver pod, and what a driver reports."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline import PIPELINE_FINALIZER
from kappa_crds.pipeline_status import AT_WORK
from kappa_crds.progress import DriverExit, DriverState, Progress, QueryProgress, SourceProgress
from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.model import PipelineObserved
from kappa_operator.pipeline.objects import PipelineResource, name_driver
from kappa_operator.pipeline.progress_cache import ProgressCache, Samples
from kappa_operator.pipeline.revision import Dependencies, Images, build_revision
from kappa_operator.statestore.storage import build_claim_storage

ON_CLAIM = build_claim_storage("state")
NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
IMAGES = Images("kappa/pipelines:dev", "IfNotPresent")
DEPENDENCIES = Dependencies(
    KafkaClusterSpec(bootstrap_servers=("kafka:9092",)), ON_CLAIM, {"in": "in", "out": "out"}
)
SPEC: dict[str, Any] = {
    "sources": [{"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}],
    "sinks": [{"name": "log", "from": "events", "kafka": {"topic": "out"}}],
}


RUN_FIELDS = ("generation", "revision", "content", "driver", "driverUid", "runningSince", "stoppingSince")


def pipeline(spec: dict[str, Any] | None = None, **status: Any) -> PipelineResource:
    """Return a pipeline with the finalizer; `status` holds camelCase fields, those of the active run among them.

    `runningCheckpoint` is the checkpoint of the active run. A change under way has the standby run `standby`, of generation 2 unless given.
    """
    active = {name: status.pop(name) for name in RUN_FIELDS if name in status}
    active |= {"checkpoint": status.pop("runningCheckpoint")} if "runningCheckpoint" in status else {}
    standby, change = status.pop("standby", {}), status.get("upgrade") or {}
    runs = [{"role": "active", **active}] if active else []
    if change.get("phase") in AT_WORK:
        known = {"generation": 2, "driverUid": "pod-2", "revision": change["revision"]}
        runs.append({"role": "standby", **known, **standby})
    generations = [run.get("generation", 0) for run in runs] + ([2] if change else [])
    status = {"lastGeneration": max(generations, default=0), **status, "runs": runs}
    return find_kind("Pipeline").parse(
        {
            "metadata": {
                "name": "delays", "namespace": "flights", "uid": "u1", "generation": 3, "resourceVersion": "7",
                "finalizers": [PIPELINE_FINALIZER],
            },
            "spec": {**SPEC, **(spec or {})},
            "status": status,
        }
    )  # fmt: skip


def revision_of(resource: PipelineResource) -> str:
    """Return the name of the revision that the pipeline wants."""
    return build(resource).name


def build(resource: PipelineResource) -> Revision:
    """Return the revision that the pipeline wants."""
    return build_revision(resource, DEPENDENCIES, IMAGES)


def started(spec: dict[str, Any] | None = None, *, generation: int = 1, **more: Any) -> PipelineResource:
    """Return a pipeline whose driver of that generation was made and seen."""
    want = revision_of(pipeline(spec, shufflePartitions=1))
    status = {
        "generation": generation, "revision": want, "driver": name_driver("delays", generation),
        "driverUid": f"pod-{generation}", "shufflePartitions": 1,
    }  # fmt: skip
    return pipeline(spec, **{**status, **more})


def pod(generation: int = 1, *, revision: str = "", phase: str = "Running", **fields: Any) -> DriverPod:
    """Return a driver pod that runs and has an address."""
    base = DriverPod(
        ref=ObjectRef("v1", "Pod", "flights", name_driver("delays", generation)),
        uid=f"pod-{generation}",
        generation=generation,
        revision=revision or revision_of(pipeline(shufflePartitions=1)),
        phase=phase,
        address="10.0.0.1",
        started=True,
    )
    return replace(base, **fields)


def failed(
    generation: int = 1, reason: Reason = Reason.DRIVER_CRASHED, *, retryable: bool = True
) -> DriverPod:
    """Return a driver pod that ended with an error."""
    end = DriverExit(reason=reason, message="it broke", retryable=retryable)
    return pod(generation, phase="Failed", exit=end)


def observed(resource: PipelineResource, *pods: DriverPod, **fields: Any) -> PipelineObserved:
    """Return an observation where all that the pipeline refers to is there."""
    base = PipelineObserved(resource=resource, dependencies=DEPENDENCIES, pods=pods, images=IMAGES)
    return replace(base, **fields)


def running(generation: int = 1, *, since: timedelta = timedelta(minutes=1), **fields: Any) -> Progress:
    """Return the progress of a driver that is at batch 42, ten records behind."""
    source = SourceProgress(
        name="events", topic="in", end_offsets={"in": {0: 90}}, latest_offsets={"in": {0: 100}}
    )
    query = QueryProgress(
        sink="log", query_id="q", run_id="r", batch_id=42, timestamp=NOW, total_input_rows=90,
        processed_rows_per_second=1200.0, sources=(source,),
    )  # fmt: skip
    base: dict[str, Any] = {
        "namespace": "flights", "pipeline": "delays", "revision": "r", "generation": generation,
        "state": DriverState.RUNNING, "started_at": NOW - since, "running_since": NOW - since, "queries": (query,),
    }  # fmt: skip
    return Progress(**{**base, **fields})


def sample(progress: Progress | None, after: timedelta) -> Samples:
    """Return the samples of a driver that showed the same for this long, until NOW + after, one each ten seconds."""
    return sample_all([progress] * (int(after.total_seconds()) // 10 + 1), NOW)


def sample_all(shown: Sequence[Progress | None], begin: datetime) -> Samples:
    """Return the samples of generation 2, one each ten seconds."""
    cache, key = ProgressCache(), Key("Pipeline", "flights", "delays")
    for number, progress in enumerate(shown):
        samples = cache.record(key, 2, begin + timedelta(seconds=10 * number), progress)
    return samples
