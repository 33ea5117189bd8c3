"""Kafka Connect in memory, with Debezium's connector for PostgreSQL as far as the operator sees it: tasks, positions, and a slot.

`step` is what the workers do in a moment: they start and end tasks, create a slot, take a snapshot, read changes.
"""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from fakes.fuse import Fuse
from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.model import (
    FAILED,
    PAUSED,
    RUNNING,
    STOPPED,
    ConnectAccess,
    ConnectInfo,
    ConnectorOffsets,
    ConnectorStatus,
    Plugin,
    Validation,
)
from kappa_operator.errors import (
    ConnectBusy,
    ConnectFailure,
    ConnectorNotFound,
    ConnectRefused,
    ConnectUnreachable,
)

POSTGRESQL = Plugin(
    **{"class": "io.debezium.connector.postgresql.PostgresConnector", "version": "3.7.0.Final"}
)
LOST_TRACE = "io.debezium.DebeziumException: The connector is trying to read, but this is no longer available on the server."
SERVER = {"server": "shop"}


@dataclass
class FakeDatabase:
    """A PostgreSQL: the end of its log, and its slots with what each has confirmed."""

    end: int = 1000
    slots: dict[str, int] = field(default_factory=dict)
    publications: set[str] = field(default_factory=set)
    created_slots: int = 0
    signals: dict[str, tuple[str, str]] = field(default_factory=dict)

    def write_signal(self, name: str, kind: str, data: str) -> None:
        """Write a row of the signal table, unless it is there."""
        if name not in self.signals:
            self.signals[name] = (kind, data)
            self.end += 100

    def create_slot(self, name: str) -> None:
        """Create a slot at the end of the log."""
        if name not in self.slots:
            self.created_slots += 1
            self.slots[name] = self.end


@dataclass
class FakeConnector:
    """A connector: what was requested, and what its task does."""

    config: dict[str, str]
    state: str = RUNNING
    task: str | None = None
    trace: str = ""
    worker: str = ""
    restarts: int = 0


@dataclass
class FakeConnect(HttpConnect):
    """The twin of `client.HttpConnect`. Positions outlive their connector, as in the real one.

    With `trouble`, no worker answers for itself; `accesses` are those of such calls. `refused` are properties that a validation refuses, `unreachable` makes
    each call about connectors fail, and `fails` each task that starts.
    """

    trouble: ConnectFailure | None = None
    version: str = "4.3.1"
    plugins: tuple[Plugin, ...] = (POSTGRESQL,)
    accesses: list[ConnectAccess] = field(default_factory=list)
    fuse: Fuse = field(default_factory=Fuse)
    connectors: dict[str, FakeConnector] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    database: FakeDatabase = field(default_factory=FakeDatabase)
    refused: tuple[str, ...] = ()
    unreachable: bool = False
    fails: str = ""
    snapshots: int = 0
    is_long: bool = False
    """Whether a snapshot does not end."""
    is_open: bool = False
    """Whether a task that fails leaves a transaction open."""
    is_reading: bool = False
    """Whether an incremental snapshot makes no progress."""
    read_signals: tuple[str, ...] = ()
    keys: dict[str, str] = field(default_factory=dict)
    """What the position has of keys meanwhile."""
    left: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Tables that the signal of an incremental snapshot has left."""
    is_hidden: bool = False
    """Whether positions are those after a restart within an incremental snapshot, without the tables that are left."""

    async def close(self) -> None:
        """Close nothing."""

    async def get_info(self, access: ConnectAccess) -> ConnectInfo:
        """Return the version; raise the trouble."""
        self.accesses.append(access)
        if self.trouble is not None:
            raise self.trouble
        return ConnectInfo(version=self.version)

    async def list_plugins(self, access: ConnectAccess) -> tuple[Plugin, ...]:
        """Return the plugins."""
        self.accesses.append(access)
        return self.plugins

    async def validate(self, access: ConnectAccess, name: str, config: dict[str, str]) -> Validation:
        """Refuse what is to be refused."""
        self._answer()
        known = [{"value": {"name": each, "errors": ["no"]}} for each in self.refused]
        return Validation.model_validate({"configs": known})

    async def get_config(self, access: ConnectAccess, name: str) -> dict[str, str]:
        """Return a configuration."""
        return dict(self._find(name).config)

    async def get_status(self, access: ConnectAccess, name: str) -> ConnectorStatus:
        """Return the states."""
        found = self._find(name)
        tasks = (
            []
            if found.task is None
            else [{"id": 0, "state": found.task, "trace": found.trace, "worker_id": found.worker}]
        )
        return ConnectorStatus.model_validate({"connector": {"state": found.state}, "tasks": tasks})

    async def list_topics(self, access: ConnectAccess, name: str) -> tuple[str, ...]:
        """Return a table's topic, another one, and that of heartbeats."""
        prefix = self._find(name).config["topic.prefix"]
        return ("__debezium-heartbeat.x", "other.public.orders", f"{prefix}.public.orders")

    async def create(
        self, access: ConnectAccess, name: str, config: dict[str, str], state: str = RUNNING
    ) -> None:
        """Create a connector."""
        self._answer()
        if name in self.connectors:
            raise ConnectBusy("it exists")
        self.connectors[name] = FakeConnector(dict(config), state)
        self.fuse.wrote()

    async def put_config(self, access: ConnectAccess, name: str, config: dict[str, str]) -> None:
        """Replace a configuration; tasks start again."""
        found = self._find(name)
        found.config, found.task = dict(config), None
        self.fuse.wrote()

    async def pause(self, access: ConnectAccess, name: str) -> None:
        """Request a pause."""
        self._set(name, PAUSED)

    async def resume(self, access: ConnectAccess, name: str) -> None:
        """Request to run."""
        self._set(name, RUNNING)

    async def stop(self, access: ConnectAccess, name: str) -> None:
        """Request a stop."""
        self._set(name, STOPPED)

    async def restart(self, access: ConnectAccess, name: str, *, only_failed: bool = True) -> None:
        """Restart a failed task."""
        found = self._find(name)
        found.task, found.trace = None, ""
        found.restarts += 1
        self.fuse.wrote()

    async def delete(self, access: ConnectAccess, name: str) -> None:
        """Delete a connector; its position stays."""
        self._answer()
        if self.connectors.pop(name, None) is not None:
            self.fuse.wrote()

    async def get_offsets(self, access: ConnectAccess, name: str) -> ConnectorOffsets:
        """Return the position; not while a failed task has a transaction open."""
        if self._find(name).task == FAILED and self.is_open:
            await asyncio.sleep(45)
        if name not in self.positions:
            return ConnectorOffsets()
        offset: dict[str, Any] = {"lsn": self.positions[name]}
        if "slot.name" not in self._find(name).config:
            number = self.positions[name]
            offset = {"file": "binlog.000003", "pos": number, "gtids": f"0-1-{number}"}
        if self.is_long:
            offset |= {"snapshot": "INITIAL", "snapshot_completed": False}
        if self.is_hidden:
            offset |= {"snapshot": "INCREMENTAL"}
        for signal, tables in ({} if self.is_hidden else self.left).items():
            known = [
                {
                    "incremental_snapshot_collections_id": table,
                    "incremental_snapshot_collections_correlation_id": signal,
                }
                for table in tables
            ]
            offset |= {"incremental_snapshot_collections": json.dumps(known), **self.keys}
        return ConnectorOffsets.model_validate({"offsets": [{"partition": SERVER, "offset": offset}]})

    async def delete_offsets(self, access: ConnectAccess, name: str) -> None:
        """Forget the position of a stopped connector."""
        found = self._find(name)
        if found.state != STOPPED or found.task is not None:
            raise ConnectRefused("it is not stopped")
        self.positions.pop(name, None)
        self.left.clear()
        self.fuse.wrote()

    async def alter_offsets(self, access: ConnectAccess, name: str, offsets: ConnectorOffsets) -> None:
        """Set the position of a stopped connector."""
        found = self._find(name)
        if found.state != STOPPED or found.task is not None:
            raise ConnectRefused("it is not stopped")
        (entry,) = offsets.offsets
        self.positions[name] = (entry.offset or {})["lsn"]
        self.left.clear()
        self.fuse.wrote()

    # what tests call

    def step(self) -> bool:
        """Let the workers do what was requested; return whether anything changed. Those that are unreachable do nothing."""
        if self.unreachable:
            return False
        before = repr((self.connectors, self.positions, self.database, self.left))
        for name, connector in self.connectors.items():
            self._work(name, connector)
        return repr((self.connectors, self.positions, self.database, self.left)) != before

    def write_rows(self) -> None:
        """Have the application write, which moves the end of the log."""
        self.database.end += 100

    def _work(self, name: str, connector: FakeConnector) -> None:
        if connector.state != RUNNING:
            connector.task = PAUSED if connector.state == PAUSED and connector.task is not None else None
            return
        if connector.task == FAILED:
            return
        if self.fails:
            connector.task, connector.trace = FAILED, self.fails
            return
        if connector.task != RUNNING and not self._start(name, connector):
            return
        if "signal.data.collection" in connector.config:
            self._read_signals()
        self.positions[name] = self.database.end
        if "slot.name" in connector.config:
            self.database.slots[connector.config["slot.name"]] = self.database.end

    def _read_signals(self) -> None:
        """Read one table of the present snapshot, and the signals that are new."""
        if not self.is_reading:
            self.is_hidden = self.is_hidden and not self.left
            self.left = {signal: tables[1:] for signal, tables in self.left.items() if tables[1:]}
        for signal, (kind, data) in self.database.signals.items():
            if signal in self.read_signals:
                continue
            self.read_signals = (*self.read_signals, signal)
            names = json.loads(data).get("data-collections", [])
            self.left = (
                {signal: tuple(each.replace("\\", "") for each in names)}
                if kind == "execute-snapshot"
                else {}
            )

    def _start(self, name: str, connector: FakeConnector) -> bool:
        """Start a task as Debezium does: behind its slot it fails or takes a snapshot, as it does without a position."""
        slot, position = connector.config.get("slot.name"), self.positions.get(name)
        if slot is None:
            self.snapshots += position is None
            connector.task = RUNNING
            return True
        confirmed = self.database.slots.get(slot)
        is_behind = position is not None and (confirmed is None or confirmed > position)
        if is_behind and connector.config["snapshot.mode"] == "when_needed":
            position = None
        elif is_behind:
            connector.task, connector.trace = FAILED, LOST_TRACE
            return False
        self.database.create_slot(slot)
        if connector.config["publication.autocreate.mode"] == "filtered":
            self.database.publications.add(connector.config["publication.name"])
        if position is None:
            self.snapshots += 1
        connector.task = RUNNING
        return True

    def _set(self, name: str, state: str) -> None:
        self._find(name).state = state
        self.fuse.wrote()

    def _find(self, name: str) -> FakeConnector:
        self._answer()
        if name not in self.connectors:
            raise ConnectorNotFound(f"connector {name} is not there")
        return self.connectors[name]

    def _answer(self) -> None:
        if self.unreachable:
            raise ConnectUnreachable("Kafka Connect does not answer")
