"""Kafka Connect in memory: the twin of `connect.client.HttpConnect`."""

from dataclasses import dataclass, field

from kappa_operator.connect.client import HttpConnect
from kappa_operator.connect.model import ConnectAccess, ConnectInfo, Plugin
from kappa_operator.errors import ConnectFailure

POSTGRESQL = Plugin(
    **{"class": "io.debezium.connector.postgresql.PostgresConnector", "version": "3.7.0.Final"}
)


@dataclass
class FakeConnect(HttpConnect):
    """Kafka Connect that answers, unless there is `trouble`. `accesses` are those of the calls."""

    trouble: ConnectFailure | None = None
    version: str = "4.3.1"
    plugins: tuple[Plugin, ...] = (POSTGRESQL,)
    accesses: list[ConnectAccess] = field(default_factory=list)

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
