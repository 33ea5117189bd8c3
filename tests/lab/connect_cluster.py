"""Distributed workers of Kafka Connect for a test, with Debezium's connectors for PostgreSQL and MariaDB: the REST API as it is on a cluster.

The files of `sources` are where workers on a cluster mount the credentials of sources: a namespace of the worker's own has that folder.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import kafka_jars
from lab.broker import free_ports
from lab.connect import fetch_debezium
from lab.controlplane import answers
from lab.errors import LabError
from lab.paths import SOURCES
from lab.shell import wait_until

SOURCES_DIR = "/etc/kappa/sources"
_MOUNT = (
    'mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work"'
    ' && mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" /etc'
    f' && mkdir -p {SOURCES_DIR} && mount --bind "$2" {SOURCES_DIR} && shift 2 && exec "$@"'
)
_INTERNAL = ("config", "offset", "status")


class ConnectCluster:
    """A context manager: one worker of a distributed Kafka Connect. It keeps nothing itself, so it may be killed and started again."""

    def __init__(self, bootstrap: str, **settings: str) -> None:
        (self._port,) = free_ports(1)
        self._home = Path(tempfile.mkdtemp(prefix="kappa-connect-"))
        self.sources = self._home / "sources"
        self.log = self._home / "connect.log"
        self._process: subprocess.Popen[bytes] | None = None
        json = "org.apache.kafka.connect.json.JsonConverter"
        self._settings = {
            "bootstrap.servers": bootstrap,
            "listeners": self.url,
            "group.id": "connect",
            "key.converter": json,
            "value.converter": json,
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

    def __enter__(self) -> Self:
        self.sources.mkdir()
        (self._home / "etc").mkdir()
        try:
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clean_up()

    def start(self) -> None:
        """Start the worker and wait until it answers for connectors."""
        plugins = ",".join(str(fetch_debezium(each)) for each in ("postgres", "mariadb"))
        settings = {**self._settings, "plugin.path": plugins}
        file = self._home / "worker.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._build(str(file)),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._home, start_new_session=True,
            )  # fmt: skip
        wait_until(self._serves, "Kafka Connect answers", seconds=90)

    def kill(self) -> None:
        """Kill the worker."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def write_sources(self, values: Mapping[str, bytes]) -> None:
        """Do what the kubelet does when the Secret of the workers changes."""
        for file in self.sources.iterdir():
            if file.name not in values:
                file.unlink()
        for name, value in values.items():
            (self.sources / name).write_bytes(value)

    def _build(self, file: str) -> Sequence[str]:
        mounted = ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", _MOUNT, "sh")
        return [
            *mounted, str(self._home / "etc"), str(self.sources),
            "java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            f"-Dlog4j2.configurationFile={SOURCES / 'kafka' / 'log4j2.properties'}",
            "-cp", f"{kafka_jars.fetch()}/*", "org.apache.kafka.connect.cli.ConnectDistributed", file,
        ]  # fmt: skip

    def _serves(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise LabError(f"Kafka Connect ended while starting:\n{self.log.read_text()[-3000:]}")
        return answers(f"{self.url}/connectors")

    def _clean_up(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)
