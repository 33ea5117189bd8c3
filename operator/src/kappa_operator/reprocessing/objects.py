"""The Reprocessing of a change, as its Pipeline creates it."""

from kappa_crds import API_VERSION
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.replay import REPLAY_RECORDS, ArchivedSource, ReplayProfile
from kappa_crds.reprocessing import ReprocessingSpec, ReprocessingStatus
from kappa_crds.reprocessing_policy import Replay, ReprocessingPolicy
from kappa_crds.resource import Metadata, Resource
from kappa_crds.sink import Delivery
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.restricted import build_owner
from kappa_operator.pipeline.objects import PipelineResource, build_labels

ReprocessingResource = Resource[ReprocessingSpec, ReprocessingStatus]


def name_reprocessing(pipeline: str, intent: str) -> str:
    """Return the name of the Reprocessing of a change: one change has one."""
    return f"{pipeline}-{intent}"


def build_reprocessing(resource: PipelineResource, intent: str) -> Manifest:
    """Return the Reprocessing of a change, controlled by its Pipeline, with the policy of spec.upgrade.reprocessing."""
    metadata, policy = resource.metadata, resource.spec.upgrade.reprocessing
    fields = {name: getattr(policy, name) for name in ReprocessingPolicy.model_fields}
    replay = Replay.model_validate(policy.replay.model_dump(include=set(Replay.model_fields)))
    spec = ReprocessingSpec(pipeline_ref=metadata.name, **{**fields, "replay": replay})
    return {
        "apiVersion": API_VERSION,
        "kind": "Reprocessing",
        "metadata": {
            "name": name_reprocessing(metadata.name, intent),
            "namespace": metadata.namespace,
            "labels": build_labels(metadata.name),
            "ownerReferences": [build_owner(resource)],
        },
        "spec": spec.to_manifest(),
    }


def name_replay_client(metadata: Metadata, pipeline: str) -> str:
    """Return the client.id of the consumers of a replay that has a quota in Kafka."""
    return f"kappa-replay.{metadata.namespace}.{pipeline}"


def build_profile(
    reprocessing: ReprocessingResource | None,
    pipeline: PipelineSpec,
    archives: tuple[ArchivedSource, ...] = (),
) -> ReplayProfile:
    """Return how the driver of the new version reads the log until it is near its end.

    Missing records that were acknowledged are those that no archive has either, so then it reads the log only, and so does a run from a time.
    A batch of a sink that writes exactly once is a transaction, which Kafka ends after a time. So the limit of the spec stays for it.
    The executors are those of the Pipeline's own spec, which the limits of its namespace count, also for a member of a chain.
    """
    is_bounded = any(sink.target.delivery is Delivery.EXACTLY_ONCE for sink in pipeline.sinks)
    default = (pipeline.trigger.max_records if is_bounded else None) or REPLAY_RECORDS
    if reprocessing is None:
        return ReplayProfile(max_records=default)
    spec = reprocessing.spec
    client = name_replay_client(reprocessing.metadata, spec.pipeline_ref)
    return ReplayProfile(
        max_records=spec.replay.max_records or default,
        client_id=None if spec.replay.max_bytes_per_second is None else client,
        archives=() if spec.acknowledge_missing or spec.start is not None else archives,
        start=spec.start,
        warms_up=spec.warm_up is not None,
        only=spec.only,
        executors=find_replay_executors(pipeline),
    )


def find_replay_executors(pipeline: PipelineSpec) -> int | None:
    """Return how many executors a new version has while it replays; None where these are not more than it has anyway."""
    own, wanted = pipeline.resources.executors.count, pipeline.upgrade.reprocessing.replay.executors
    return wanted if wanted is not None and 0 < own < wanted else None


def is_controlled_by(reprocessing: ReprocessingResource, pipeline: PipelineResource) -> bool:
    """Return whether this Pipeline created the Reprocessing: one of a deleted Pipeline of the same name is not."""
    owner = reprocessing.metadata.controller
    return owner is not None and owner.kind == "Pipeline" and owner.uid == pipeline.metadata.uid


def view_reprocessing(
    reprocessing: ReprocessingResource | None, pipeline: PipelineResource
) -> ReprocessingResource | None:
    """Return a Reprocessing as it is for a Pipeline: its own one, or one that it is a member of, with its cuts; None for another one."""
    if reprocessing is None or is_controlled_by(reprocessing, pipeline):
        return reprocessing
    metadata, status = pipeline.metadata, reprocessing.status
    known = {(each.pipeline_ref, each.uid) for each in status.members}
    view = status.view_member(metadata.name) if (metadata.name, metadata.uid) in known else None
    return None if view is None else reprocessing.replace(status=view)
