"""What remedies act on, read from the mirror: pipelines and topics."""

from pydantic import ValidationError

from kappa_crds.pipeline import PipelineState
from kappa_crds.quantities import parse_duration
from kappa_crds.topic import HOLD_ANNOTATION
from kappa_crds.upgrade import AT_WORK, UpgradeMode, UpgradePhase
from kappa_operator.checks.topic import TopicResource
from kappa_operator.cluster import Body
from kappa_operator.errors import ReferenceProblem
from kappa_operator.keys import Key
from kappa_operator.mirror import Mirror
from kappa_operator.observe.references import find_referred
from kappa_operator.plan.remedy_model import PipelineFacts, TopicFacts

_CHANGING = {phase.value for phase in (*AT_WORK, UpgradePhase.WATCHING, UpgradePhase.ROLLING_BACK)}


def read_pipeline(body: Body) -> PipelineFacts:
    """Return what a remedy needs to know of a pipeline."""
    metadata, spec, status = body["metadata"], body.get("spec", {}), body.get("status") or {}
    wanted = spec.get("resources", {}).get("executors", {}).get("count", 1)
    is_seen = status.get("observedGeneration") == metadata.get("generation")
    is_changing = (status.get("upgrade") or {}).get("phase") in _CHANGING
    is_running = status.get("state") == PipelineState.RUNNING.value
    return PipelineFacts(
        metadata["name"], metadata["namespace"], metadata.get("uid", ""), status.get("state"), wanted,
        spec.get("restartNonce", ""),
        steady=is_running and is_seen and not is_changing and status.get("executors", 0) == wanted,
        stateless=(spec.get("upgrade") or {}).get("mode") == UpgradeMode.STATELESS.value,
    )  # fmt: skip


def find_topics(mirror: Mirror, namespace: str, cluster: Key) -> dict[str, TopicFacts]:
    """Return the Topics of the namespace that stand for topics of the cluster, by their names in Kafka."""
    found: dict[str, TopicFacts] = {}
    for key in mirror.find("Topic", namespace):
        try:
            topic: TopicResource | None = mirror.get(key)
            if (
                topic is None
                or find_referred(mirror, "KafkaCluster", namespace, topic.spec.cluster_ref) != cluster
            ):
                continue
        except (ValidationError, ReferenceProblem):  # its own look says so
            continue
        metadata, retention = topic.metadata, topic.spec.retention
        time = None if retention is None else retention.time
        found[topic.spec.topic_name or key.name] = TopicFacts(
            key.name, namespace, metadata.uid, None if time is None else parse_duration(time),
            metadata.annotations.get(HOLD_ANNOTATION, ""),
        )  # fmt: skip
    return found
