"""From a KafkaCluster that a resource names to a connection."""

import hashlib
import json
from functools import partial

from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.reasons import Reason
from kappa_operator.consent import KAFKA_CONNECT, KAFKA_OPERATOR, KAFKA_PIPELINES
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.recent import SHORT
from kappa_operator.engine.references import resolve_ready
from kappa_operator.errors import AuthenticationFailed, ReferenceProblem
from kappa_operator.kafka.config import build_access, build_purpose, find_secret_keys, name_uses
from kappa_operator.kafka.model import KafkaAccess
from kappa_operator.kafkacluster.decide import KafkaClusterResource
from kappa_operator.secrets import read_secret


def resolve_cluster(cache: ResourceCache, namespace: str, name: str | None) -> KafkaClusterResource:
    """Return the ready KafkaCluster that is meant; raise ReferenceProblem."""
    return resolve_ready(cache, "KafkaCluster", namespace, name)


async def read_access(
    context: OperatorContext, cluster: KafkaClusterResource, age: float = 0.0
) -> KafkaAccess:
    """Return how the operator reaches the Kafka cluster, its Secrets at most `age` seconds old; raise SecretProblem.

    That is raised also where a Secret does not allow its use.
    """
    return await _read_access(context, cluster, cluster.spec, KAFKA_OPERATOR, age)


async def read_pipeline_access(
    context: OperatorContext, cluster: KafkaClusterResource, age: float = 0.0
) -> KafkaAccess:
    """Return how pipelines reach the Kafka cluster; raise SecretProblem."""
    return await _read_access(context, cluster, cluster.spec.of_pipelines, KAFKA_PIPELINES, age)


async def read_reader_spec(
    context: OperatorContext, cluster: KafkaClusterResource, age: float = 0.0
) -> KafkaClusterSpec:
    """Return the connection of a pod that reads topics of all tables, once its Secrets allow that; raise SecretProblem or ReferenceProblem.

    It is that of pipelines. Where each of them has a user of its own, it is that of the workers of Kafka Connect.
    """
    spec, use = cluster.spec.of_pipelines, KAFKA_PIPELINES
    if cluster.spec.pipeline_users is not None:
        spec, use = cluster.spec.of_workers, KAFKA_CONNECT
        if spec.sasl is None and (spec.tls is None or spec.tls.client_secret_ref is None):
            raise ReferenceProblem(
                f'KafkaCluster "{cluster.metadata.name}" has spec.pipelineUsers and no log-in of workers, so nothing may read all topics',
                reason=Reason.PROOF_FAILED,
                retryable=True,
            )
    await _read_access(context, cluster, spec, use, age)
    return spec


async def _read_access(
    context: OperatorContext, cluster: KafkaClusterResource, spec: KafkaClusterSpec, use: str, age: float
) -> KafkaAccess:
    wanted: dict[str, list[str]] = {}
    for name, key in find_secret_keys(spec):
        wanted.setdefault(name, []).append(key)
    secrets: dict[str, dict[str, str]] = {}
    for name, keys in wanted.items():
        ref = ObjectRef("v1", "Secret", cluster.metadata.namespace, name)
        uses = name_uses(cluster.spec, name, use)
        secrets[name] = await read_secret(context, ref, keys, build_purpose(spec, *uses), age)
    return build_access(spec, secrets)


async def read_version(context: OperatorContext, cluster: KafkaClusterResource) -> str:
    """Return a fingerprint of the spec's generation and the versions of its Secrets, which holds no secret."""
    versions: list[tuple[str, str]] = []
    for name in sorted({name for name, _ in find_secret_keys(cluster.spec)}):
        ref = ObjectRef("v1", "Secret", cluster.metadata.namespace, name)
        body = await context.read_recent(ref, SHORT) or {}
        versions.append((name, body.get("metadata", {}).get("resourceVersion", "")))
    text = json.dumps([cluster.metadata.generation, versions])
    return hashlib.sha256(text.encode()).hexdigest()[:10]


async def read_sampling_access(context: OperatorContext, cluster: KafkaClusterResource) -> KafkaAccess:
    """Return how samples of lag reach the cluster; raise AuthenticationFailed while Kafka refuses the log-in of its check."""
    if cluster.status.refused_log_in is not None:
        raise AuthenticationFailed("Kafka refuses the log-in; see the condition Ready of the KafkaCluster")
    return await read_access(context, cluster)


async def connect(context: OperatorContext, cluster: KafkaClusterResource) -> Key:
    """Return the key of the cluster, once there is a client for it; raise SecretProblem or KafkaFailure.

    An existing client is kept: the check of the KafkaCluster replaces it when a Secret changes.
    """
    key = Key.of(cluster)
    await context.kafka.ensure(key, partial(read_access, context, cluster))
    return key
