"""What remediations act on, read from the cache: pipelines, topics, and the savepoints that are taken before."""

from kappa_crds.conversion import convert
from kappa_crds.lagremediation import Saved
from kappa_crds.pipeline_status import AT_WORK, PipelineState, UpgradePhase
from kappa_crds.quantities import parse_duration
from kappa_crds.upgrade import UpgradeMode
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.keys import Key
from kappa_operator.engine.references import is_meant
from kappa_operator.lagpolicy.model import LagPolicyResource
from kappa_operator.lagpolicy.remediation.model import PipelineFacts, SavepointFacts, TopicFacts
from kappa_operator.topic.checks import TopicResource
from kappa_operator.topic.retention import name_hold

_CHANGING = {
    phase.value
    for phase in (
        *(*AT_WORK, UpgradePhase.WATCHING, UpgradePhase.ROLLING_BACK),
        *(UpgradePhase.REPROCESSING, UpgradePhase.SOAKING),  # another spec would end them
    )
}


def read_pipeline(body: Body) -> PipelineFacts:
    """Return what a remediation needs to know of a pipeline."""
    metadata, spec = body["metadata"], body.get("spec", {})
    status = convert("Pipeline", body).get("status") or {}
    kept, mode = spec.get("savepoints") or {}, (spec.get("upgrade") or {}).get("mode")
    wanted = spec.get("resources", {}).get("executors", {}).get("count", 1)
    is_seen = status.get("observedGeneration") == metadata.get("generation")
    change = status.get("upgrade") or {}
    is_changing = change.get("phase") in _CHANGING or "givenUp" in change  # the active version is another one
    is_running = status.get("state") == PipelineState.RUNNING.value
    return PipelineFacts(
        metadata["name"], metadata["namespace"], metadata.get("uid", ""), status.get("state"), wanted,
        spec.get("restartNonce", ""), (spec.get("trigger") or {}).get("maxRecords"), len(spec.get("sources") or ()) or 1,
        steady=is_running and is_seen and not is_changing and status.get("executors", 0) == wanted,
        stateless=mode == UpgradeMode.STATELESS.value,
        keeps_savepoints="maxCount" in kept or "maxAge" in kept,
        saves_changes=mode == UpgradeMode.SAVEPOINT.value,
    )  # fmt: skip


def find_savepoints(cache: ResourceCache, policy: LagPolicyResource) -> dict[str, SavepointFacts]:
    """Return the Savepoints that remediations of a policy wait for, as far as they are there."""
    found: dict[str, SavepointFacts] = {}
    for record in policy.status.remediations:
        if record.savepoint is None or record.saved is not Saved.TAKING:
            continue
        body = cache.get_body(Key("Savepoint", policy.metadata.namespace, record.savepoint))
        if body is not None:
            found[record.savepoint] = _read_savepoint(body)
    return found


def _read_savepoint(body: Body) -> SavepointFacts:
    metadata, status = body["metadata"], body.get("status") or {}
    message = next((each["message"] for each in status.get("conditions", ())), "it has not been checked yet")
    return SavepointFacts(
        metadata["name"], body["spec"]["pipelineRef"], status.get("state"), bool(status.get("taken")),
        "deletionTimestamp" in metadata, message,
    )  # fmt: skip


def find_topics(cache: ResourceCache, policy: Key, cluster: Key) -> dict[str, TopicFacts]:
    """Return the Topics of the namespace that stand for topics of the cluster, by their names in Kafka."""
    namespace, annotation = policy.namespace, name_hold(f"lagpolicy.{policy.name}")
    found: dict[str, TopicFacts] = {}
    for key in cache.find("Topic", namespace):
        topic: TopicResource | None = cache.get(key)
        if topic is None or not is_meant(cache, cluster, topic.spec.cluster_ref):
            continue
        metadata, retention = topic.metadata, topic.spec.retention
        time = None if retention is None else retention.time
        found[topic.spec.topic_name or key.name] = TopicFacts(
            key.name, namespace, metadata.uid, None if time is None else parse_duration(time),
            metadata.annotations.get(annotation, ""), annotation,
        )  # fmt: skip
    return found
