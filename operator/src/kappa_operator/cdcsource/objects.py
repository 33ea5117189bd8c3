"""The names of what belongs to a source, and what its connector is made of."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace

from kappa_crds.cdcsource import CDCSourceSpec
from kappa_crds.cdcsource_status import CDCSourceStatus, LogMark
from kappa_crds.databases import MySql, PostgreSql
from kappa_crds.resource import Resource
from kappa_crds.topic import Cleanup
from kappa_operator.cdc.address import DatabaseKind
from kappa_operator.cdc.connector.common import Source
from kappa_operator.cdc.connector.expressions import qualify
from kappa_operator.cdc.connector.mysql import SchemaHistory, build_mysql
from kappa_operator.cdc.connector.names import name_publication, name_slot
from kappa_operator.cdc.connector.postgresql import SCHEMA, build_postgresql
from kappa_operator.cdc.work import DatabaseRequest, DatabaseTask, WantedMark
from kappa_operator.connect.log_in import build_connector_client
from kappa_operator.connect.names import KafkaClusterResource, name_history, name_sources_secret
from kappa_operator.engine.actions import KeepCredentials, Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.restricted import build_owner

CDCSourceResource = Resource[CDCSourceSpec, CDCSourceStatus]

SOURCE_LABEL = "kappa-platform.io/cdc-source"
_CLUSTER_LABEL = "kappa-platform.io/kafka-cluster"


def build_sources_ref(namespace: str, cluster: str) -> ObjectRef:
    """Return the reference of that Secret."""
    return ObjectRef("v1", "Secret", namespace, name_sources_secret(cluster))


def build_sources_secret(cluster: KafkaClusterResource) -> Manifest:
    """Return that Secret without credentials. It goes with the KafkaCluster."""
    metadata = cluster.metadata
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name_sources_secret(metadata.name),
            "namespace": metadata.namespace,
            "labels": {"app.kubernetes.io/managed-by": "kappa-operator", _CLUSTER_LABEL: metadata.name},
            "ownerReferences": [build_owner(cluster)],
        },
        "type": "Opaque",
    }


def build_credentials(resource: CDCSourceResource, cluster: KafkaClusterResource) -> KeepCredentials:
    """Return the action that gives the workers the log-in of the source."""
    return replace(build_login(resource), manifest=build_sources_secret(cluster))


def build_login(resource: CDCSourceResource) -> KeepCredentials:
    """Return that action without the Secret of the workers: what the log-in is, and where it may be sent to."""
    database, namespace = resource.spec.database, resource.metadata.namespace
    authorities = None
    if database.tls is not None:
        known = database.tls.ca_secret_ref
        authorities = (ObjectRef("v1", "Secret", namespace, known.name), known.key)
    return KeepCredentials(
        {},
        resource.metadata.name,
        ObjectRef("v1", "Secret", namespace, database.credentials_secret_ref.name),
        get_server(resource),
        authorities,
        truststore=isinstance(database, MySql),
    )


def get_server(resource: CDCSourceResource) -> str:
    """Return the database as host:port."""
    return f"{resource.spec.database.host}:{resource.spec.database.port}"


def describe_database(resource: CDCSourceResource) -> str:
    """Return the database for people, without a user."""
    spec = resource.spec
    kind = "postgresql" if spec.postgresql else "mysql" if spec.mysql else "mariadb"
    name = f"/{spec.postgresql.database}" if spec.postgresql else ""
    return f"{kind}://{get_server(resource)}{name}"


def get_slot(resource: CDCSourceResource) -> str:
    """Return the replication slot of the source; empty where the database has none."""
    database, metadata = resource.spec.postgresql, resource.metadata
    return "" if database is None else name_slot(metadata.namespace, metadata.name, database)


def get_publication(resource: CDCSourceResource) -> str:
    """Return the publication of the source; empty where the database has none."""
    database, metadata = resource.spec.postgresql, resource.metadata
    return "" if database is None else name_publication(metadata.namespace, metadata.name, database)


def get_signal_table(resource: CDCSourceResource) -> str:
    """Return the signal table as SCHEMA.TABLE; empty where there is none."""
    table = resource.spec.signal_table
    return "" if table is None else qualify(table, SCHEMA)


def get_prefix(resource: CDCSourceResource) -> str:
    """Return what the names of the topics begin with."""
    return resource.spec.topic_prefix or resource.metadata.name


def select_topics(resource: CDCSourceResource, topics: Iterable[str]) -> list[str]:
    """Return the topics below the prefix of the source."""
    start = f"{get_prefix(resource)}."
    return [each for each in topics if each.startswith(start)]


def build_source(resource: CDCSourceResource, credentials: str) -> Source:
    """Return the source as the configuration of its connector needs it."""
    metadata = resource.metadata
    return Source(metadata.namespace, metadata.name, metadata.uid, resource.spec, credentials)


def build_config(
    resource: CDCSourceResource, credentials: str, cluster: KafkaClusterResource, *, owns_publication: bool
) -> dict[str, str]:
    """Return the configuration of the connector; raise ValueError for a value that Kafka Connect may replace."""
    source, database = build_source(resource, credentials), resource.spec.database
    if isinstance(database, PostgreSql):
        return build_postgresql(source, database, owns_publication=owns_publication)
    topic, client = name_history(cluster, source.name), build_connector_client(cluster.spec.of_workers)
    return build_mysql(source, database, SchemaHistory(topic, cluster.spec.bootstrap_servers, client))


def build_database_request(
    resource: CDCSourceResource, task: DatabaseTask, position: LogMark | None = None
) -> DatabaseRequest:
    """Return what a pod is to do in the database. `position` is that of the connector in the binary log."""
    spec, database = resource.spec, resource.spec.database
    owned = resource.status.owns_publication is not False
    return DatabaseRequest(
        task=task,
        kind=DatabaseKind.POSTGRESQL if spec.postgresql else DatabaseKind.MYSQL,
        host=database.host,
        port=database.port,
        database=spec.postgresql.database if spec.postgresql else "",
        tls=database.tls is not None,
        include=spec.tables.include,
        exclude=spec.tables.exclude,
        keyed=tuple(key.table for key in spec.keys),
        compacted=spec.topics.cleanup is not Cleanup.DELETE,
        slot=get_slot(resource),
        failover=spec.postgresql is not None and spec.postgresql.failover_slot,
        publication=get_publication(resource),
        is_publication_given=spec.postgresql is not None and spec.postgresql.publication is not None,
        signal_table=get_signal_table(resource),
        hidden=spec.columns.exclude if spec.columns else (),
        drop_publication=owned and spec.postgresql is not None and spec.postgresql.publication is None,
        marks=_list_marks(resource, position),
    )


def _list_marks(resource: CDCSourceResource, position: LogMark | None) -> tuple[WantedMark, ...]:
    """Return the marks to ask the server for: the position, and the end of the log at the last check."""
    if position is None:
        return ()
    binlog = resource.status.binlog
    known = ((position, False), (None if binlog is None else binlog.end, True))
    return tuple(
        WantedMark(file=each.file, position=each.position, gtids=each.gtids, is_exact=is_exact)
        for each, is_exact in known
        if each is not None
    )


def compute_fingerprint(resource: CDCSourceResource, credentials: str) -> str:
    """Return the fingerprint of what a check depends on, and of what its result is compared with. It has no secret. A check of before a
    new snapshot knows another position."""
    request = build_database_request(resource, DatabaseTask.CHECK).model_dump_json(
        exclude={"drop_publication", "least_retained", "marks"}
    )
    changes = resource.spec.schema_changes
    accepted = [changes.accept] if changes and changes.accept else []
    known = [request, credentials, resource.status.snapshot_request or "", *accepted]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()[:10]
