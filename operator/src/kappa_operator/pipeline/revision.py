"""The revision that a driver runs, from a spec and its dependencies.

Pure and stable: the same input gives the same revision, so a resync never restarts a pipeline.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from kappa_crds.inputs import InputTopic, name_read
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.permissions import name_version
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.pipeline_status import KafkaUser, OutputTopic, PipelineStatus
from kappa_crds.quantities import parse_cpu, parse_size
from kappa_crds.resource import Metadata
from kappa_crds.revision import (
    BLOCK_MANAGER_PORT,
    DRIVER_PORT,
    EXECUTOR_TEMPLATE_KEY,
    REVISION_DIR,
    RPC_SECRET_FILE,
    Revision,
)
from kappa_crds.savepoint import Restoration
from kappa_crds.source import Source
from kappa_crds.upgrade import Upgrade
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.network import Network
from kappa_operator.engine.pod_template import select_template
from kappa_operator.engine.restricted import DEFAULT_PODS, PodOptions
from kappa_operator.pipeline.objects import (
    SPARK_MASTER,
    PipelineResource,
    build_executor_affinity,
    build_executor_template,
    has_executors,
    name_account,
    name_executor_account,
)
from kappa_operator.pipeline.tuning import build_tuning
from kappa_operator.savepoint.objects import SavepointResource
from kappa_operator.statestore.storage import (
    Mounts,
    Storage,
    build_kafka_connection,
    build_kafka_mounts,
    build_registry_mounts,
    build_registry_secrets,
    build_storage_mounts,
)

_HEAP_SHARE = 0.6
_ACCOUNT = "spark.kubernetes.authenticate.executor.serviceAccountName"
_IMAGE = "spark.kubernetes.container.image"
_MEBIBYTE = 2**20
_ALONE = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
"""Without executors, no other pod reaches the ports of Spark."""
AUTHENTICATED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret.file": RPC_SECRET_FILE,
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
}
"""Driver and executors authenticate each other and encrypt RPC and block transfer (AES). Source: Spark's security page."""

LOCAL_DATA = {"spark.io.encryption.enabled": "true"}
"""The driver creates the key, and sends it to executors over the encrypted RPC. Source: Spark's security page."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The resources that a pipeline depends on, found and ready.

    `topics` maps names in the spec to names in Kafka. `modules` are Python modules by file name, None without spec.pythonFrom.
    `savepoint` is the one that spec.restore names. `advertised` are the addresses of brokers besides spec.bootstrapServers.
    `user` is that of the pipeline in Kafka, where it has one of its own.
    """

    cluster: KafkaClusterSpec
    storage: Storage
    topics: dict[str, str]
    modules: dict[str, str] | None = None
    savepoint: SavepointResource | None = None
    advertised: tuple[str, ...] = ()
    user: KafkaUser | None = None


@dataclass(frozen=True, slots=True)
class Images:
    """The settings of the operator for pods."""

    runtime: str
    pull_policy: str
    java_options: str = ""
    """Options of every driver's and executor's JVM, before those of the pipeline."""
    allow_python: bool = True
    """Whether a driver may run Python of the pipeline's author."""
    network: Network | None = None
    """The installation's values on NetworkPolicies; None where it has none."""
    pods: PodOptions = DEFAULT_PODS
    """The user of pods, and the template of the installation."""
    encrypt_local_data: bool = False
    """Whether all pipelines encrypt what Spark writes to local disks."""


@dataclass(frozen=True)
class BuiltRevision:
    """A revision, and all that it was built from: equal inputs give an equal revision."""

    inputs: tuple[PipelineResource, Dependencies, Images]
    revision: Revision

    @cached_property
    def name(self) -> str:
        """Return the name of the revision, which is a hash."""
        return self.revision.name


def build_mounts(dependencies: Dependencies) -> Mounts:
    """Return what driver and executors mount."""
    return build_storage_mounts(dependencies.storage) + build_kafka_mounts(dependencies.cluster)


def build_driver_mounts(dependencies: Dependencies, spec: PipelineSpec) -> Mounts:
    """Return what a driver mounts to reach what its spec names."""
    return build_mounts(dependencies) + build_registry_mounts(spec.sources)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pipeline keeps its state, and what that starts from."""

    checkpoint: int = 0
    restoration: Restoration | None = None
    shuffle_partitions: int | None = None
    from_beginning: tuple[str, ...] = ()
    outputs: int = 0
    """The version of the topics that are written."""
    inputs: tuple[InputTopic, ...] = ()
    """The topics that are read in another version."""


def read_place(status: PipelineStatus) -> Place:
    """Return the place of the present state, or of the next one where that is recorded already."""
    return Place(
        status.checkpoint,
        status.restoration,
        status.shuffle_partitions,
        status.from_beginning,
        status.active.outputs,
        status.inputs,
    )


def build_revision(
    resource: PipelineResource, dependencies: Dependencies, images: Images, place: Place | None = None
) -> Revision:
    """Return the revision for the pipeline from its spec and its dependencies, in its present place or another one."""
    bare, where = _build_bare(resource, dependencies, images), place or read_place(resource.status)
    spec = bare.spec.model_copy(
        update={
            "restart_nonce": resource.spec.restart_nonce,
            "sources": tuple(_begin_at(each, where.from_beginning) for each in bare.spec.sources),
        }
    )
    built = bare.model_copy(
        update={
            "spec": spec,
            "tuning": build_tuning(spec, where.shuffle_partitions),
            "content": bare.content_hash,
        }
    )
    return move_revision(built, resource.metadata, where)


def move_revision(revision: Revision, metadata: Metadata, place: Place) -> Revision:
    """Return the revision with its state in another place; its sources start where they did there."""
    store = revision.checkpoint.rsplit("/", 1)[0]
    written = name_written(revision.spec, revision.topics, place.outputs, revision.outputs)
    inputs = tuple(each for each in place.inputs if each.name in list_read(revision.spec))
    partitions = (
        revision.spec.state_partitions or place.shuffle_partitions or revision.tuning.shuffle_partitions
    )
    return revision.model_copy(
        update={
            "checkpoint": f"{store}/{name_checkpoint(metadata, place.checkpoint)}",
            "restoration": place.restoration,
            "tuning": revision.tuning.model_copy(update={"shuffle_partitions": partitions}),
            "from_beginning": place.from_beginning,
            "topics": name_read(written, inputs),
            "outputs": place.outputs,
            "moves": tuple(each.move for each in inputs if each.move is not None),
        }
    )


def name_written(
    spec: PipelineSpec, topics: Mapping[str, str], version: int, present: int = 0
) -> dict[str, str]:
    """Return the topics in Kafka by their names in the spec, with those that are written in another version than the present one."""
    written = {topic for _, topic in spec.written}
    before, after = name_version(present), name_version(version)
    return {
        name: topic.removesuffix(before) + after if name in written else topic
        for name, topic in topics.items()
    }


def list_read(spec: PipelineSpec) -> set[str]:
    """Return the topics that are read and not written, by their names in the spec."""
    return {name for source in spec.sources for name in source.topic_names} - {
        topic for _, topic in spec.written
    }


def list_outputs(revision: Revision) -> tuple[OutputTopic, ...]:
    """Return the topics that a revision writes to."""
    names = sorted({topic for _, topic in revision.spec.written})
    return tuple(OutputTopic(name=name, topic=revision.topics.get(name, name)) for name in names)


def replace_image(revision: Revision, image: str) -> Revision:
    """Return the revision with another image for driver and executors."""
    conf = {key: image if key == _IMAGE else value for key, value in revision.spark_conf.items()}
    return revision.model_copy(update={"image": image, "spark_conf": conf})


def read_checkpoint_number(revision: Revision) -> int:
    """Return the number of a revision's checkpoint, the inverse of `build_checkpoint`."""
    folder = revision.checkpoint.rsplit("/", 1)[1]
    return int(folder.removeprefix(revision.uid).removeprefix("-") or 0)


def _begin_at(source: Source, from_beginning: tuple[str, ...]) -> Source:
    if source.name not in from_beginning:
        return source
    return source.model_copy(update={"starting_offsets": "earliest"})


def _build_bare(resource: PipelineResource, dependencies: Dependencies, images: Images) -> Revision:
    """Return the revision without the place of its state."""
    spec, metadata = resource.spec, resource.metadata
    image = spec.image or images.runtime
    return Revision(
        namespace=metadata.namespace,
        pipeline=metadata.name,
        uid=metadata.uid,
        spec=strip_operational(spec),
        kafka=build_kafka_connection(
            dependencies.cluster, None if dependencies.user is None else dependencies.user.name
        ),
        registries=build_registry_secrets(spec.sources),
        topics=dict(sorted(dependencies.topics.items())),
        checkpoint=build_checkpoint(dependencies.storage.root, metadata, 0),
        bucket=dependencies.storage.bucket,
        hdfs=dependencies.storage.hdfs,
        tuning=build_tuning(spec, None),
        spark_conf=build_spark_conf(resource, image, images),
        image=image,
        executor_pod=_build_executor_pod(resource, dependencies, images.pods),
        driver_template=select_template(images.pods.template, spec.pod_template, spec.driver),
        modules=dependencies.modules,
    )


def build_checkpoint(root: str, metadata: Metadata, number: int) -> str:
    """Return the place of a pipeline's checkpoint below the root of a store."""
    return f"{root}/{metadata.namespace}/{metadata.name}/{name_checkpoint(metadata, number)}"


def name_checkpoint(metadata: Metadata, number: int) -> str:
    """Return the folder of a pipeline's checkpoint. Each restored savepoint and each empty state has a folder of its own."""
    return metadata.uid if number == 0 else f"{metadata.uid}-{number}"


def _build_executor_pod(resource: PipelineResource, dependencies: Dependencies, pods: PodOptions) -> Manifest:
    spec = resource.spec
    if not has_executors(spec):
        return {}
    template = select_template(pods.template, spec.pod_template, spec.executors)
    return build_executor_template(
        resource,
        build_mounts(dependencies),
        build_executor_affinity(resource.metadata.name, dependencies.storage),
        replace(pods, template=template),
    )


def strip_operational(spec: PipelineSpec) -> PipelineSpec:
    """Leave out what only the operator uses, so that changing it restarts nothing. What pods have of templates is beside the spec."""
    fields = PipelineSpec.model_fields
    return spec.model_copy(
        update={
            "suspend": False,
            "restart_nonce": "",
            "restore": None,
            "savepoints": None,
            "pod_template": None,
            "driver": None,
            "executors": None,
            **{name: fields[name].get_default() for name in ("restart", "upgrade", "revision_history_limit")},
        }
    )


def hash_declared(spec: PipelineSpec, modules: Mapping[str, str] | None) -> str:
    """Return a hash of what a person declared, without what the operator adds to it, and without the number of executors, which autoscalers set."""
    resources = spec.resources
    alone = resources.replace(executors=resources.executors.replace(count=0))
    templates = {"pod_template": spec.pod_template, "driver": spec.driver, "executors": spec.executors}
    bare = strip_operational(spec).replace(
        resources=alone,
        restart_nonce=spec.restart_nonce,
        upgrade=Upgrade(mode=spec.upgrade.mode),
        **templates,
    )
    # Without defaults, as in a revision: a field that a later release has besides is no other spec (ADR 29).
    manifest = bare.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    text = json.dumps([manifest, modules], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def build_spark_conf(resource: PipelineResource, image: str, images: Images) -> dict[str, str]:
    """Return Spark's settings that depend on the cluster and on the sizes of the pods."""
    spec, name, namespace = resource.spec, resource.metadata.name, resource.metadata.namespace
    driver, executors = spec.resources.driver, spec.resources.executors
    conf = {
        "spark.app.name": f"{namespace}.{name}",
        "spark.driver.memory": _share(driver.memory),
        "spark.ui.enabled": "false",
        **spec.spark_conf,
        **_build_java_options(images.java_options, spec.spark_conf),
        **(LOCAL_DATA if spec.encryption.local_data or images.encrypt_local_data else {}),
    }
    if executors.count == 0:
        return conf | _ALONE | {"spark.master": f"local[{max(1, math.ceil(parse_cpu(driver.cpu)))}]"}
    account = name_executor_account(resource)
    heap = _share(executors.memory)
    overhead = parse_size(executors.memory) // _MEBIBYTE - int(heap[:-1])
    return (
        conf
        | AUTHENTICATED
        | {
            "spark.master": SPARK_MASTER,
            "spark.submit.deployMode": "client",
            "spark.driver.host": f"{name_account(name)}.{namespace}.svc",
            "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104 - the pod's own address, behind its Service
            "spark.driver.port": str(DRIVER_PORT),
            "spark.blockManager.port": str(BLOCK_MANAGER_PORT),
            "spark.executor.instances": str(executors.count),
            "spark.executor.cores": str(max(1, math.ceil(parse_cpu(executors.cpu)))),
            "spark.executor.memory": heap,
            "spark.executor.memoryOverhead": f"{overhead}m",
            "spark.kubernetes.namespace": namespace,
            _IMAGE: image,
            "spark.kubernetes.container.image.pullPolicy": images.pull_policy,
            "spark.kubernetes.executor.request.cores": executors.cpu,
            "spark.kubernetes.executor.podTemplateFile": f"{REVISION_DIR}/{EXECUTOR_TEMPLATE_KEY}",
            "spark.kubernetes.executor.podTemplateContainerName": "executor",
            "spark.kubernetes.executor.disableConfigMap": "true",
            **({_ACCOUNT: account} if account else {}),
            # Else Spark deletes Services and PVCs that it never created, and a driver has no permission for.
            "spark.kubernetes.driver.service.deleteOnTermination": "false",
            "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        }
    )


def _build_java_options(common: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the options of the JVMs, common ones first, so that a pipeline's own win."""
    keys = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
    return {key: " ".join(filter(None, (common, own.get(key)))) for key in keys if common}


def _share(memory: str) -> str:
    """Return the JVM heap for a pod of that size; the rest is for Python, RocksDB and the JVM itself."""
    return f"{int(parse_size(memory) * _HEAP_SHARE) // _MEBIBYTE}m"
