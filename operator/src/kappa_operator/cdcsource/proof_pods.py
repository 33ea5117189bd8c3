"""The pod of a proof: it reads the database and the topics, with their log-ins as files, and reaches nothing else."""

import hashlib
from itertools import chain

from kappa_crds.cdcsource import CDCSourceSpec
from kappa_crds.cdcsource_proof import ProofPolicy, ProofWork
from kappa_crds.envelope import DecimalEncoding
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.quantities import parse_duration
from kappa_operator.cdc.address import DatabaseKind
from kappa_operator.cdc.proof_work import (
    KAFKA_CA,
    KAFKA_CERTIFICATE,
    KAFKA_KEY,
    KAFKA_PASSWORD,
    KAFKA_USER,
    KafkaServers,
    ProofRequest,
    TableKey,
)
from kappa_operator.cdcsource.model import CDCSourceObserved
from kappa_operator.cdcsource.objects import (
    SOURCE_LABEL,
    CDCSourceResource,
    get_prefix,
    get_publication,
    get_slot,
)
from kappa_operator.cdcsource.pods import PodProgram, build_pod, mount_database, mount_keys
from kappa_operator.connect.names import KafkaClusterResource
from kappa_operator.connect.topics import list_topics
from kappa_operator.engine.actions import ApplyObject, CreateObject, Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.network import Destination, Network, admit_destinations, admit_dns, build_policy

TASK_LABEL, PROOF = "kappa-platform.io/cdc-task", "proof"
GRACE = 60
"""Seconds beyond the timeout, in which the program writes its answer."""


def build_proof_ref(resource: CDCSourceResource, work: ProofWork) -> ObjectRef:
    """Return the reference of the pod with that number. There can be no two pods of one name."""
    metadata = resource.metadata
    return ObjectRef("v1", "Pod", metadata.namespace, f"{metadata.name}-proof-{work.number}")


def build_proof_request(
    resource: CDCSourceResource, policy: ProofPolicy, kafka: KafkaClusterSpec, offsets: str = ""
) -> ProofRequest:
    """Return what to compare, and how. An outbox has no topic of its table. `offsets` is the topic of the positions of MariaDB and MySQL."""
    spec, database = resource.spec, resource.spec.database
    outbox = () if spec.outbox is None else (spec.outbox.table,)
    return ProofRequest(
        kind=DatabaseKind.POSTGRESQL if spec.postgresql else DatabaseKind.MYSQL,
        offsets="" if spec.postgresql else offsets,
        host=database.host,
        port=database.port,
        database=spec.postgresql.database if spec.postgresql else "",
        tls=database.tls is not None,
        publication=get_publication(resource),
        slot=get_slot(resource),
        prefix=get_prefix(resource),
        include=spec.tables.include,
        only=policy.tables,
        exclude=(*spec.tables.exclude, *outbox),
        keys=tuple(TableKey(table=each.table, columns=each.columns) for each in spec.keys),
        altered=list_altered(spec),
        decimals="precise" if spec.decimals is DecimalEncoding.BASE64 else "string",
        wait=parse_duration(policy.wait),
        seconds=parse_duration(policy.timeout),
        kafka=KafkaServers(
            bootstrap=kafka.bootstrap_servers,
            protocol=("sasl_" if kafka.sasl else "") + ("ssl" if kafka.tls else "plaintext"),
            mechanism=kafka.sasl.mechanism.value if kafka.sasl else "",
            verify_hostname=kafka.tls is None or kafka.tls.verify_hostname,
        ),
    )


def find_offsets(cluster: KafkaClusterResource | None) -> str:
    """Return the topic in which the workers of a cluster store positions; empty where the operator does not run them."""
    if cluster is None or cluster.spec.connect is None or cluster.spec.connect.workers is None:
        return ""
    return next(each.name for each in list_topics(cluster) if each.setting == "offset.storage.topic")


def list_altered(spec: CDCSourceSpec) -> tuple[str, ...]:
    """Return the patterns of columns that events do not have as they are."""
    columns = spec.columns
    if columns is None:
        return ()
    shortened = (each.columns for each in (*columns.mask, *columns.truncate))
    return tuple(chain(columns.exclude, *shortened, *(each.columns for each in columns.hash)))


def compute_fingerprint(request: ProofRequest) -> str:
    """Return the fingerprint of a request. It has no secret."""
    return hashlib.sha256(request.model_dump_json().encode()).hexdigest()[:10]


def create_proof_pod(
    observed: CDCSourceObserved, work: ProofWork, request: ProofRequest
) -> tuple[ApplyObject | CreateObject, ...]:
    """Return the actions that create the pod, after its NetworkPolicy."""
    resource, policy = observed.resource, observed.resource.spec.proof
    assert policy is not None  # noqa: S101 - no proof begins without it
    assert observed.readers is not None  # noqa: S101 - nor without a log-in
    database, kafka = mount_database(resource.spec.database), _mount_kafka(observed.readers)
    program = PodProgram(
        "kappa_operator.cdc.prover",
        request.model_dump_json(by_alias=True, exclude_none=True),
        round(request.seconds) + GRACE,
        cpu="100m",
        memory="256Mi",
        memory_limit="1Gi",
        storage=policy.temporary_storage,
        secrets=(("database", database), ("kafka", kafka)),
        labels={TASK_LABEL: PROOF},
    )
    pod = CreateObject(build_pod(observed, build_proof_ref(resource, work), program))
    if observed.network is None or observed.cluster is None:
        return (pod,)
    return ApplyObject(build_proof_policy(resource, observed.cluster, observed.network)), pod


def build_proof_policy(
    resource: CDCSourceResource, cluster: KafkaClusterResource, network: Network
) -> Manifest:
    """Return the policy of pods that reach the database and Kafka, and that nothing connects to."""
    database, metadata = resource.spec.database, resource.metadata
    brokers = map(Destination.parse, (*cluster.spec.bootstrap_servers, *cluster.status.advertised))
    destinations = {Destination(database.host, database.port), *brokers}
    return build_policy(
        resource,
        f"{metadata.name}-proof",
        {SOURCE_LABEL: metadata.name, TASK_LABEL: PROOF},
        ingress=(),
        egress=[
            admit_dns(network),
            *admit_destinations(network, metadata.namespace, destinations),
            *network.egress,
        ],
    )


def _mount_kafka(spec: KafkaClusterSpec) -> list[Manifest]:
    sources: list[Manifest] = []
    if spec.tls is not None and spec.tls.ca_secret_ref is not None:
        sources.append(mount_keys(spec.tls.ca_secret_ref.name, {spec.tls.ca_secret_ref.key: KAFKA_CA}))
    if spec.tls is not None and spec.tls.client_secret_ref is not None:
        files = {"tls.crt": KAFKA_CERTIFICATE, "tls.key": KAFKA_KEY}
        sources.append(mount_keys(spec.tls.client_secret_ref.name, files))
    if spec.sasl is not None:
        files = {"username": KAFKA_USER, "password": KAFKA_PASSWORD}
        sources.append(mount_keys(spec.sasl.credentials_secret_ref.name, files))
    return sources
