"""Reads what is there of the users of a pipeline in Kafka: their Secrets, and in Kafka itself where something may have to change."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial

from kappa_crds.permissions import Permission
from kappa_crds.pipeline_status import KafkaUser, PipelineState
from kappa_crds.reasons import Reason
from kappa_operator.consent import TOPICS_ANNOTATION, check_consent, read_patterns
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.ownership import require_own
from kappa_operator.engine.plan import Failure, Verdict, judge_error
from kappa_operator.engine.recent import LONGEST, MINUTE, SHORT
from kappa_operator.engine.references import read_referred
from kappa_operator.errors import KappaError, NameTaken, SecretProblem
from kappa_operator.kafka.config import build_user_purpose, choose_mechanism
from kappa_operator.kafka.model import Acl, UserView
from kappa_operator.kafkacluster.connection import connect
from kappa_operator.kafkacluster.decide import MOST_ORPHANS, KafkaClusterResource
from kappa_operator.pipeline.objects import PipelineResource, build_secret
from kappa_operator.pipeline.revision import Dependencies
from kappa_operator.pipeline.user import (
    DROPS,
    KEEPS,
    UnusedUser,
    UserObserved,
    find_outside,
    find_record,
    is_changing,
    list_needs,
)


async def observe_user(
    context: OperatorContext,
    resource: PipelineResource,
    dependencies: Dependencies | Verdict,
    failures: tuple[Failure, ...],
) -> UserObserved | Verdict | None:
    """Return the user that the pipeline should have, or the verdict on why it cannot; None where it needs none now."""
    is_at_rest = resource.metadata.deletion_timestamp is not None or resource.spec.suspend
    if isinstance(dependencies, Verdict) or dependencies.user is None or is_at_rest:
        return None
    failed = next((each for each in failures if isinstance(each.action, KEEPS)), None)
    if failed is not None:
        return judge_error(PipelineState.PENDING, failed.error)
    try:
        return await _observe(context, resource, dependencies, dependencies.user)
    except KappaError as error:
        return judge_error(PipelineState.PENDING, error)


async def _observe(
    context: OperatorContext, resource: PipelineResource, dependencies: Dependencies, named: KafkaUser
) -> UserObserved:
    cluster: KafkaClusterResource = read_referred(
        context.cache, Key("KafkaCluster", resource.metadata.namespace, named.cluster)
    )
    needs = list_needs(resource, dependencies.topics)
    await check_permitted(context, cluster, needs)
    record, manifest = find_record(resource.status, named.name), build_secret(resource, named.secret)
    is_running = resource.status.active.driver is not None
    observed = UserObserved(
        record=record or named,
        is_recorded=record is not None,
        cluster=Key.of(cluster),
        mechanism=choose_mechanism(cluster.spec),
        wanted=frozenset(map(Acl.of, needs)),
        manifest=manifest,
        password=await _read_version(context, manifest, LONGEST if is_running else SHORT),
    )
    if is_running and _is_complete(resource, observed):
        return observed
    view = await _read_view(context, cluster, named.name, MINUTE if is_running else SHORT)
    if record is None and view.exists:
        raise NameTaken(
            f"Kafka has a user {named.name}, or ACLs of it, that the operator did not create; delete them, or change"
            f" spec.pipelineUsers.rotation of KafkaCluster {named.cluster}"
        )
    return replace(observed, view=view)


def _is_complete(resource: PipelineResource, user: UserObserved) -> bool:
    """Return whether nothing is to be done in Kafka, or not while a change is in progress."""
    record = user.record
    is_granted = record.password == user.password and record.granted == user.fingerprint
    return user.is_recorded and is_granted and (record.exact or is_changing(resource.status))


async def check_permitted(
    context: OperatorContext, cluster: KafkaClusterResource, needs: Iterable[Permission]
) -> None:
    """Raise SecretProblem where the operator's log-in does not allow users of pipelines, or not with these topics."""
    log_in = cluster.spec.sasl
    if log_in is None or not context.settings.require_opt_in:
        return
    name, namespace = log_in.credentials_secret_ref.name, cluster.metadata.namespace
    ref = ObjectRef("v1", "Secret", namespace, name)
    body = await context.read_recent(ref, MINUTE)
    if body is None:
        raise SecretProblem(f'Secret "{name}" not found in namespace "{namespace}"; create it')
    try:
        check_consent(body, build_user_purpose(cluster.spec), context.settings)
        _check_topics(body, needs)
    except SecretProblem:
        context.reads.drop(ref)  # a user may correct it
        raise


def _check_topics(body: Manifest, needs: Iterable[Permission]) -> None:
    metadata = body["metadata"]
    known = read_patterns((metadata.get("annotations") or {}).get(TOPICS_ANNOTATION, ""))
    outside = find_outside(needs, known)
    if not outside:
        return
    value = shlex.quote(",".join([*known, *outside]))
    raise SecretProblem(
        f'Secret "{metadata["name"]}" does not allow that users of pipelines have permissions on {", ".join(outside)}; if they may,'
        f" run: kubectl annotate secret {metadata['name']} -n {metadata['namespace']} {TOPICS_ANNOTATION}={value} --overwrite",
        reason=Reason.SECRET_NOT_ALLOWED,
    )


async def _read_version(context: OperatorContext, manifest: Manifest, age: float) -> str | None:
    """Return the version of a Secret that the operator created, None where it is absent; raise NameTaken."""
    body = await context.read_recent(ObjectRef.of(manifest), age)
    if body is None:
        return None
    require_own(body, manifest)
    return f"{body['metadata']['uid']}/{body['metadata']['resourceVersion']}"


async def _read_view(
    context: OperatorContext, cluster: KafkaClusterResource, user: str, age: float
) -> UserView:
    key = await connect(context, cluster)
    return await context.reads.read(("user", key, user), age, partial(context.kafka.read_user, key, user))


async def observe_unused(
    context: OperatorContext,
    resource: PipelineResource,
    dependencies: Dependencies | Verdict,
    failures: tuple[Failure, ...],
) -> tuple[UnusedUser, ...]:
    """Return the users that the pipeline does not need: all while it is deleted, none while it changes, or waits for something."""
    status, is_deleted = resource.status, resource.metadata.deletion_timestamp is not None
    if not is_deleted and (is_changing(status) or isinstance(dependencies, Verdict)):
        return ()
    needed = None if is_deleted or isinstance(dependencies, Verdict) else dependencies.user
    name = None if needed is None else needed.name
    unused = [
        await _observe_unused(context, resource, each) for each in status.kafka_users if each.name != name
    ]
    refused = any(isinstance(each.action, DROPS) for each in failures)
    return tuple(_find_place(context, each, refused=refused) for each in unused)


def _find_place(context: OperatorContext, unused: UnusedUser, *, refused: bool) -> UnusedUser:
    """Return the user with whether its KafkaCluster lists it, or cannot although it cannot be deleted now."""
    listed = _list_orphans(context, unused.cluster)
    if unused.record.name in listed:
        return replace(unused, is_listed=True)
    is_stuck = refused or bool(unused.problem)
    cannot_list = context.cache.get_version(unused.cluster) < 0 or len(listed) >= MOST_ORPHANS
    return replace(unused, is_lost=unused.is_lost or (is_stuck and cannot_list))


async def _observe_unused(
    context: OperatorContext, resource: PipelineResource, record: KafkaUser
) -> UnusedUser:
    key = Key("KafkaCluster", resource.metadata.namespace, record.cluster)
    unused = UnusedUser(record, key)
    if context.cache.get_version(key) < 0:
        return replace(unused, is_lost=not context.kafka.has(key))
    try:
        cluster: KafkaClusterResource = read_referred(context.cache, key)
        await connect(context, cluster)
    except KappaError as error:
        return replace(unused, problem=error.message)
    return unused


def _list_orphans(context: OperatorContext, cluster: Key) -> Sequence[str]:
    """Return the users that the KafkaCluster lists, also where its spec is invalid."""
    status = (context.cache.get_body(cluster) or {}).get("status") or {}
    return status.get("orphanedUsers") or ()
