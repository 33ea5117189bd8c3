"""Distributed workers of Kafka Connect for a test, with Debezium's connectors: the REST API as it is on a cluster.

The files of `sources` are where workers on a cluster mount the credentials of sources: a namespace of the worker's own has that folder.
"""

import json
import signal
import urllib.request
from collections.abc import Mapping, Sequence

from lab.broker import Broker, free_ports
from lab.connect_files import class_archive, class_path, fetch_debezium, from_archive
from lab.controlplane import answers
from lab.paths import SOURCES
from lab.progress import step
from lab.server import LabServer

SOURCES_DIR = "/etc/kappa/sources"
_MOUNT = (
    'mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work"'
    ' && mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc'
    f' && mkdir -p {SOURCES_DIR} && mount --bind "$2" {SOURCES_DIR} && shift 2 && exec "$@"'
)
_INTERNAL = ("config", "offset", "status")


def record_classes() -> None:
    """Have a JVM keep the classes that a worker loads, once for each version of the jars."""
    archive = class_archive()
    if archive.exists():
        return
    part = archive.with_suffix(".part")
    part.unlink(missing_ok=True)
    recording = [f"-XX:ArchiveClassesAtExit={part}"]
    with step("connect classes", done="recorded"), Broker() as broker:
        with ConnectCluster(broker.bootstrap, plugins=(), java=recording) as worker:
            worker.stop(signal.SIGTERM)
        part.rename(archive)


class ConnectCluster(LabServer):
    """A context manager: one worker of a distributed Kafka Connect. It keeps nothing itself, so it may be killed and started again.

    `plugins` are the databases for which it has connectors, `java` are further options of the JVM.
    """

    name = "Connect"
    seconds = 90.0

    def __init__(
        self,
        bootstrap: str,
        *,
        plugins: Sequence[str] = ("postgres", "mariadb"),
        java: Sequence[str] = (),
        **settings: str,
    ) -> None:
        super().__init__()
        self._plugins, self._java_options = plugins, java
        (self._port,) = free_ports(1)
        self.sources = self._home / "sources"
        converter = "org.apache.kafka.connect.json.JsonConverter"
        self._settings = {
            "bootstrap.servers": bootstrap,
            "listeners": self.url,
            "group.id": "connect",
            "key.converter": converter,
            "value.converter": converter,
            "plugin.discovery": "service_load",
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "1000",
            "config.providers": "sources",
            "config.providers.sources.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
            "config.providers.sources.param.allowed.paths": SOURCES_DIR,
            **{f"{name}.storage.topic": f"connect-{name}" for name in _INTERNAL},
            **{f"{name}.storage.replication.factor": "1" for name in _INTERNAL},
            **{f"{name}.storage.partitions": "1" for name in ("offset", "status")},
            **settings,
        }

    @property
    def url(self) -> str:
        """Return the address of the REST API."""
        return f"http://127.0.0.1:{self._port}"

    def list_connectors(self) -> list[str]:
        """Return the names of all connectors."""
        with urllib.request.urlopen(f"{self.url}/connectors", timeout=30) as answer:
            return list(json.load(answer))

    def write_sources(self, values: Mapping[str, bytes]) -> None:
        """Do what the kubelet does when the Secret of the workers changes."""
        for file in self.sources.iterdir():
            if file.name not in values:
                file.unlink()
        for name, value in values.items():
            (self.sources / name).write_bytes(value)

    def _prepare(self) -> None:
        self.sources.mkdir()
        (self._home / "etc").mkdir()

    def _build_command(self) -> Sequence[str]:
        plugins = ",".join(str(fetch_debezium(each)) for each in self._plugins)
        file = self._home / "worker.properties"
        settings = {**self._settings, "plugin.path": plugins or str(self._home / "etc")}
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        mounted = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT, "sh")
        return [
            *mounted, str(self._home / "etc"), str(self.sources),
            "java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            *(self._java_options or from_archive()),
            f"-Dlog4j2.configurationFile={SOURCES / 'kafka' / 'log4j2.properties'}",
            "-cp", class_path(), "org.apache.kafka.connect.cli.ConnectDistributed", str(file),
        ]  # fmt: skip

    def _serves(self) -> bool:
        return answers(f"{self.url}/connectors")
