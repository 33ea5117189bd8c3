"""The dependencies of a pipeline: its Kafka cluster, its state store, and every topic that it names.

A missing one becomes a verdict. A running driver is not stopped for it; a new one is not started without it. Python that the
installation forbids also stops a running driver.
"""

from collections.abc import Iterator
from datetime import datetime

from kappa_crds.conditions import VERIFIED, ConditionType, find_condition
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import PipelineState
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import SavepointTask
from kappa_crds.source import Source, find_registries
from kappa_operator.consent import REGISTRY, Purpose
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Verdict
from kappa_operator.engine.recent import MINUTE
from kappa_operator.engine.references import find_referred, read_referred
from kappa_operator.errors import KappaError, ReferenceProblem
from kappa_operator.kafkacluster.connection import connect, read_pipeline_access, resolve_cluster
from kappa_operator.kafkacluster.decide import KafkaClusterResource
from kappa_operator.pipeline.modules import select_modules
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pipeline.pod_policy import check_template_secrets, check_templates
from kappa_operator.pipeline.policy import check_choices, check_namespace
from kappa_operator.pipeline.revision import Dependencies
from kappa_operator.pipeline.user import name_user
from kappa_operator.savepoint.objects import SavepointResource, name_savepoint
from kappa_operator.savepoint.stores import find_storage
from kappa_operator.secrets import read_secret
from kappa_operator.statestore.keys import check_store_secret
from kappa_operator.statestore.objects import build_storage
from kappa_operator.statestore.storage import Storage
from kappa_operator.statestore.users import resolve_store


async def observe_dependencies(
    context: OperatorContext, resource: PipelineResource, *, ask_kafka: bool = True
) -> Dependencies | Verdict:
    """Return the dependencies of the pipeline, or the verdict on what is missing.

    Without `ask_kafka`, a topic that no Topic resource declares counts as found.
    """
    spec, namespace = resource.spec, resource.metadata.namespace
    try:
        check_choices(spec, context.settings)
        check_templates(resource, context.settings)
        await check_namespace(context, namespace)
        cluster = resolve_cluster(context.cache, namespace, spec.cluster_ref)
        store = resolve_store(context.cache, namespace, spec.state_store_ref)
        storage = build_storage(store)
        await read_pipeline_access(context, cluster, MINUTE)
        await check_store_secret(context, namespace, storage)
        await check_registry_secrets(context, namespace, spec.sources)
        await check_template_secrets(context, resource)
        user = name_user(cluster.spec, cluster.metadata.name, resource.metadata)
        return Dependencies(
            cluster=cluster.spec.of_pipelines if user is None else cluster.spec.log_in_with(user.secret),
            user=user,
            advertised=cluster.status.advertised,
            storage=storage,
            topics=await resolve_topics(context, cluster, resource, ask_kafka=ask_kafka),
            modules=await read_modules(context, resource),
            savepoint=find_savepoint(context, resource, storage),
        )
    except KappaError as error:
        return Verdict(PipelineState.PENDING, error.reason, error.message, stalled=not error.retryable)


def find_connected_since(context: OperatorContext, resource: PipelineResource) -> datetime | None:
    """Return since when the KafkaCluster is Ready, now while it is not; None where there is none."""
    namespace, name = resource.metadata.namespace, resource.spec.cluster_ref
    try:
        cluster = read_referred(context.cache, find_referred(context.cache, "KafkaCluster", namespace, name))
    except ReferenceProblem:
        return None
    condition = find_condition(cluster.status.conditions, ConditionType.READY)
    if condition is None or condition.status != "True":
        return context.now()
    return condition.last_transition_time


async def check_registry_secrets(
    context: OperatorContext, namespace: str, sources: tuple[Source, ...]
) -> None:
    """Raise SecretProblem where a Secret of a schema registry, or a key of it, is missing or not allowed there."""
    for _, registry in find_registries(sources):
        login, ca = registry.credentials_secret_ref, registry.ca_secret_ref
        if login is not None:
            purpose = Purpose.of_url(REGISTRY, registry.url, "a password")
            ref = ObjectRef("v1", "Secret", namespace, login.name)
            await read_secret(context, ref, ("username", "password"), purpose, MINUTE)
        if ca is not None:
            ref = ObjectRef("v1", "Secret", namespace, ca.name)
            await read_secret(context, ref, (ca.key,), Purpose.of_url(REGISTRY, registry.url), MINUTE)


async def read_modules(context: OperatorContext, resource: PipelineResource) -> dict[str, str] | None:
    """Return the Python modules of spec.pythonFrom; raise ReferenceProblem where they cannot be used."""
    if resource.spec.python_from is None:
        return None
    name, namespace = resource.spec.python_from.config_map_ref.name, resource.metadata.namespace
    ref = ObjectRef("v1", "ConfigMap", namespace, name)
    body = await context.read_recent(ref, MINUTE)
    if body is None:
        raise ReferenceProblem(
            f'ConfigMap "{name}" not found in namespace "{namespace}"; create it, for example with'
            f" `kubectl create configmap {name} --from-file=rules.py`",
            reason=Reason.PYTHON_MODULES_NOT_FOUND,
        )
    try:
        return select_modules(name, body.get("data") or {})
    except ReferenceProblem:
        context.reads.drop(ref)  # a correction is to be found at once
        raise


def find_savepoint(
    context: OperatorContext, resource: PipelineResource, storage: Storage
) -> SavepointResource | None:
    """Return the savepoint of spec.restore, None where it was restored already; raise ReferenceProblem where it is missing."""
    restore, namespace = resource.spec.restore, resource.metadata.namespace
    if restore is None or restore == resource.status.restored:
        return None
    savepoint: SavepointResource = read_referred(
        context.cache, Key("Savepoint", namespace, restore.savepoint)
    )
    if savepoint.status.taken is not None:
        verified = find_condition(savepoint.status.conditions, VERIFIED)
        if verified is not None and verified.status == "False":
            message = f"Savepoint {restore.savepoint} of spec.restore is damaged: {verified.message}; name another one"
            raise ReferenceProblem(message, reason=Reason.SAVEPOINT_DAMAGED)
        check_place(context.cache, savepoint, storage)
        work = savepoint.status.work
        if work is None or work.task is not SavepointTask.DELETE:
            return savepoint
        message = "is being deleted; name another one"
    else:
        message = "was not taken yet"
    raise ReferenceProblem(
        f"Savepoint {restore.savepoint} of spec.restore {message}",
        reason=Reason.SAVEPOINT_NOT_READY,
        retryable=True,
    )


def check_place(cache: ResourceCache, savepoint: SavepointResource, storage: Storage) -> None:
    """Raise ReferenceProblem where a savepoint is not in the store of the pipeline: its driver has access to no other."""
    found = find_storage(cache, savepoint, None)
    if isinstance(found, KappaError) or found.is_same(storage):
        return
    name = savepoint.metadata.name
    raise ReferenceProblem(
        f"Savepoint {name} of spec.restore is in another StateStore than the pipeline's state; name a Savepoint with spec.import:"
        f" {{name: {name_savepoint(savepoint.metadata)}, storeRef: the one that it is in}}, which copies it here",
        reason=Reason.SAVEPOINT_IN_OTHER_STORE,
    )


def name_topics(spec: PipelineSpec) -> Iterator[str]:
    """Yield every topic that the spec names."""
    yield from (name for source in spec.sources for name in source.read_names)
    yield from (topic for _, topic in spec.written)


async def resolve_topics(
    context: OperatorContext,
    cluster: KafkaClusterResource,
    resource: PipelineResource,
    *,
    ask_kafka: bool = True,
) -> dict[str, str]:
    """Return the name in Kafka for each name in the spec; raise ReferenceProblem for a topic that does not exist."""
    topics: dict[str, str] = {}
    for name in sorted(set(name_topics(resource.spec))):
        key = Key("Topic", resource.metadata.namespace, name)
        if context.cache.get_version(key) >= 0:
            topics[name] = _resolve_declared(context, key)
        else:
            topics[name] = await _find(context, cluster, name) if ask_kafka else name
    return topics


def _resolve_declared(context: OperatorContext, key: Key) -> str:
    """Return the topic's name in Kafka. An existing topic is enough, even if a change of it was refused."""
    topic = read_referred(context.cache, key)
    condition = find_condition(topic.status.conditions, ConditionType.READY)
    if condition is not None:
        usable = condition.status == "True" or topic.status.topic_id is not None
        if usable and condition.reason != Reason.TOPIC_CONFLICT:
            return topic.status.topic_name or topic.spec.topic_name or key.name
    message = f"{condition.reason}: {condition.message}" if condition else "it was not reconciled yet"
    raise ReferenceProblem(
        f"Topic {key.name} is not ready: {message}", reason=Reason.TOPIC_NOT_READY, retryable=True
    )


async def _find(context: OperatorContext, cluster: KafkaClusterResource, name: str) -> str:
    view = await context.kafka.describe_topic(await connect(context, cluster), name)
    if view is None:
        raise ReferenceProblem(
            f"topic {name} is neither a Topic resource in namespace {cluster.metadata.namespace}"
            f" nor in Kafka cluster {cluster.metadata.name}; create a Topic",
            reason=Reason.TOPIC_NOT_FOUND,
            retryable=True,
        )
    return name
