"""Reads what a decision about the archive of a Topic needs: the pod of its run, its store, and how it reaches Kafka."""

from dataclasses import replace

from kappa_crds.archive import Archive
from kappa_crds.archive_work import ArchiveResult
from kappa_crds.progress import DriverExit
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_crds.savepoint_work import WorkState
from kappa_crds.topic import Retention
from kappa_operator.archive.model import ArchiveObserved, Place, is_current, measure_wait
from kappa_operator.archive.objects import TopicResource, build_pod_ref
from kappa_operator.engine.cluster import Body
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.network import read_network
from kappa_operator.engine.recent import MINUTE
from kappa_operator.engine.work_pods import WorkPod, parse_result, read_work_pod
from kappa_operator.errors import KappaError
from kappa_operator.kafkacluster.connection import read_reader_spec, resolve_cluster
from kappa_operator.statestore.keys import check_store_secret
from kappa_operator.statestore.mounts import find_claim_node
from kappa_operator.statestore.objects import build_storage
from kappa_operator.statestore.users import resolve_store


async def observe_archive(context: OperatorContext, resource: TopicResource) -> ArchiveObserved | None:
    """Return what there is to know of the archive; None for a topic that has none and had none."""
    spec, status = resource.spec.archive, resource.status.archive
    if spec is None and status is None:
        return None
    retention = (resource.spec.retention or Retention()).time
    observed = ArchiveObserved(
        pod=await _find_pod(context, resource),
        retention=None if retention is None else parse_duration(retention),
        image=context.settings.runtime_image,
        pull_policy=context.settings.image_pull_policy,
        network=read_network(context.settings.network_policies, context.settings.namespace),
        pods=context.settings.pods,
    )
    if spec is None:
        return observed
    try:
        place = await _find_place(context, resource, spec, has_pod=observed.pod is not None)
        return replace(observed, place=place)
    except KappaError as problem:
        return replace(observed, problem=problem)


async def _find_place(
    context: OperatorContext, resource: TopicResource, archive: Archive, *, has_pod: bool
) -> Place:
    """Return where the archive is and how Kafka is read, once the Secrets of both allow that."""
    namespace, status = resource.metadata.namespace, resource.status.archive
    store = resolve_store(context.cache, namespace, archive.state_store_ref)
    storage = build_storage(store)
    await check_store_secret(context, namespace, storage)
    cluster = resolve_cluster(context.cache, namespace, resource.spec.cluster_ref)
    kafka = await read_reader_spec(context, cluster, MINUTE)
    place = Place(store.metadata.name, storage, kafka, cluster.status.advertised)
    if has_pod or storage.claim is None:
        return place
    current = status is None or is_current(status, resource.status.topic_id, place.store)
    wait = measure_wait(archive, status, context.now(), resource.metadata.uid, current=current)
    is_running = status is not None and status.state is WorkState.RUNNING
    if wait > 0 and not is_running:
        return place
    return replace(place, node=await find_claim_node(context, namespace, storage.claim))


async def _find_pod(context: OperatorContext, resource: TopicResource) -> WorkPod[ArchiveResult] | None:
    """Return the pod of the last run, if it is there. One of that name with another owner is none."""
    status = resource.status.archive
    if status is None or status.state is WorkState.DONE:
        return None
    ref = build_pod_ref(resource, status.number)
    return read_work_pod(await context.cluster.get(ref), resource.metadata.uid, ref, parse_archive_result)


def parse_archive_result(pod: Body) -> ArchiveResult | None:
    """Return how a run ended, None while it has not."""
    return parse_result(pod, ArchiveResult.model_validate_json, _fail_run)


def _fail_run(ended: str, _text: str) -> ArchiveResult:
    message = f"{ended} and without a result"
    return ArchiveResult(failure=DriverExit(reason=Reason.ARCHIVE_FAILED, message=message))
