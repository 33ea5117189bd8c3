"""Connectors for the benches of change data capture: a `CDCSource` as the operator renders it, and a bare connector of Debezium.

Each has a worker with settings of its own: those of the operator, or Kafka's. Both workers have the same JVM, and both connectors write
JSON without schemas, which is less work than with them.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kappa_crds.kinds import find_kind
from kappa_operator.cdcsource.objects import build_config
from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.model import ConnectAccess
from kappa_operator.connect.worker import build_settings
from lab.broker import Broker
from lab.connect_cluster import ConnectCluster
from lab.debezium import configure_postgres, write_json
from lab.postgres import DATABASE, USER, Postgres

PRODUCT, BARE = "product", "bare"
_NAME = "orders"
_LISTENER = ("listeners", "rest.", "plugin.")
_KAFKA_DEFAULTS = {"exactly.once.source.support": "disabled", "offset.flush.interval.ms": "60000"}


@dataclass(frozen=True)
class Side:
    """A kind of connector. `worker` and `connector` are settings besides those of the kind, to try them out."""

    name: str
    worker: dict[str, str] = field(default_factory=dict)
    connector: dict[str, str] = field(default_factory=dict)

    def build_worker(self, bootstrap: str) -> dict[str, str]:
        """Return the settings of the worker. The operator's are complete but for the listener with TLS and the folder of plugins."""
        if self.name == BARE:
            return {**_KAFKA_DEFAULTS, "group.id": BARE, **self.worker}
        lines = [line.partition("=") for line in build_settings(_build_cluster(bootstrap)).splitlines()]
        rendered = {name: value for name, _, value in lines if not name.startswith(_LISTENER)}
        return {"offset.flush.interval.ms": "60000", **rendered, **self.worker}

    def build_connector(
        self, database: Postgres, bootstrap: str, prefix: str, tables: Sequence[str]
    ) -> dict[str, str]:
        """Return the configuration of the connector."""
        is_bare = self.name == BARE
        config = (
            _build_bare(database, prefix, tables) if is_bare else _render(database, bootstrap, prefix, tables)
        )
        return {**config, **self.connector}


def _build_cluster(bootstrap: str) -> Any:
    spec = {"bootstrapServers": [bootstrap], "connect": {"workers": {}}}
    return find_kind("KafkaCluster").parse({"metadata": {"name": "main", "namespace": "bench"}, "spec": spec})


def _render(database: Postgres, bootstrap: str, prefix: str, tables: Sequence[str]) -> dict[str, str]:
    server = {"host": "127.0.0.1", "port": database.port, "credentialsSecretRef": {"name": "login"}}
    spec = {
        "postgresql": {**server, "database": DATABASE},
        "tables": {"include": list(tables)},
        "topicPrefix": prefix,
    }
    source = find_kind("CDCSource").parse({"metadata": {"name": _NAME, "namespace": "bench"}, "spec": spec})
    return build_config(source, "", _build_cluster(bootstrap), owns_publication=True)


def _build_bare(database: Postgres, prefix: str, tables: Sequence[str]) -> dict[str, str]:
    """Return what Debezium's tutorial has, without schemas in the records."""
    return {
        **configure_postgres(database, prefix),
        "tasks.max": "1",
        "table.include.list": ",".join(f"public.{each}" for each in tables),
        **write_json(keys_with_schemas=False, values_with_schemas=False),
    }


@contextmanager
def run_connector(
    side: Side, broker: Broker, database: Postgres, prefix: str, tables: Sequence[str] = (_NAME,)
) -> Iterator[None]:
    """Run a connector in a worker of its own; it starts within the block. Afterwards its slot and publication are gone."""
    with ConnectCluster(broker.bootstrap, **side.build_worker(broker.bootstrap)) as workers:
        workers.write_sources({f"{_NAME}.username": USER.encode(), f"{_NAME}.password": b"unused"})
        access = ConnectAccess(workers.url, None, None, None)
        config = side.build_connector(database, broker.bootstrap, prefix, tables)
        try:
            asyncio.run(_create(access, prefix, config))
            yield
        finally:
            asyncio.run(_delete(access, prefix))
    _drop(database)


async def _create(access: ConnectAccess, name: str, config: dict[str, str]) -> None:
    client = HttpConnect()
    try:
        await client.create(access, name, config)
    finally:
        await client.close()


async def _delete(access: ConnectAccess, name: str) -> None:
    client = HttpConnect()
    try:
        await client.delete(access, name)
    finally:
        await client.close()


def _drop(database: Postgres) -> None:
    database.execute(
        "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL"
    )
    database.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active")
    for (name,) in database.query("SELECT pubname FROM pg_publication"):
        database.execute(f'DROP PUBLICATION "{name}"')
