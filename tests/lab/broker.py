"""One Kafka broker for a test, on the loopback or where pods reach it: real, up in about three seconds, gone at the end.

It needs the jars from the cache but no cluster; with the classes that `record_classes` keeps it starts in half the time.
`kill()` and `start()` again on the same data and ports is how
tests make it fail. With `users` there is a listener with SASL, with `tls` it is encrypted, and a test can see
that the wrong password or an unknown authority is refused.
"""

import contextlib
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import kafka_jars, pki
from lab.errors import LabError
from lab.paths import CACHE, SOURCES
from lab.ports import next_ports
from lab.progress import step
from lab.shell import run, wait_until

_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_CLUSTER_ID = "a2FwcGEta2Fma2EtdGVzdA"


def record_classes() -> None:
    """Have a JVM keep the classes that a broker loads, once for each version of the jars."""
    archive = _archive()
    if archive.exists():
        return
    part = archive.with_suffix(f".{os.getpid()}.part")
    with step("kafka classes", done="recorded"), Broker(java=[f"-XX:ArchiveClassesAtExit={part}"]) as broker:
        broker.stop()
        part.rename(archive)


def _archive() -> Path:
    return CACHE / f"{kafka_jars.folder().name}.jsa"


def free_ports(count: int) -> list[int]:
    """Return free ports of this process; all are held open until the last is known, so they differ."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            port = next(next_ports())
            with contextlib.suppress(OSError):
                held.enter_context(socket.socket()).bind(("", port))
                found.append(port)
    return found


def _keep(made: Path, target: Path) -> None:
    """Copy a folder whole or not at all; another process may do the same."""
    with tempfile.TemporaryDirectory(dir=target.parent) as part:
        copy = shutil.copytree(made, Path(part) / made.name)
        with contextlib.suppress(OSError):
            copy.rename(target)


class Broker:
    """A context manager; `properties` override the broker's settings, `users` maps names to passwords.

    `bootstrap` is plain text. `sasl_bootstrap` (with users) takes PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 for
    the same users, over TLS if `tls`. `tls_bootstrap` (with tls) is TLS alone. `authority` is the file of the
    certificate authority that signed the broker's certificate. `address` is where it listens: the loopback, or
    `network.NODE_IP`, which pods and the host reach while the cluster is up. `java` are options of the JVM, stronger than those for a short test.
    `joins` is a broker, already running, of whose cluster this one is to be the second.
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        heap_mib: int = 256,
        address: str = "127.0.0.1",
        java: Sequence[str] = (),
        joins: "Broker | None" = None,
    ) -> None:
        self._joins = joins
        self._java_options = tuple(java)
        self._extra = dict(properties or {})
        self._users = dict(users or {})
        self._tls = tls
        self._heap_mib = heap_mib
        self._address = address
        self._ports = dict(zip(("PLAINTEXT", "CONTROLLER", "SASL", "TLS"), free_ports(4), strict=True))
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="kappa-broker-"))
        self.authority = self.folder / "pki" / "ca.crt"
        self.log = self.folder / "broker.log"
        self.bootstrap = f"{address}:{self._ports['PLAINTEXT']}"
        self.sasl_bootstrap = f"{address}:{self._ports['SASL']}"
        self.tls_bootstrap = f"{address}:{self._ports['TLS']}"

    def __enter__(self) -> Self:
        try:
            self._format()
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        died = self._explain_death()
        self._clean_up()
        if died:
            raise LabError(died)

    @property
    def pid(self) -> int | None:
        """The broker's process id while it runs."""
        running = self._process is not None and self._process.poll() is None
        return self._process.pid if running and self._process else None

    def start(self) -> None:
        """Start it, the first time or again on the same data and ports; returns when it serves."""
        if self.pid is not None:
            return
        heap = [f"-Xmx{self._heap_mib}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        java, *options = self._java()
        marker = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [java, *heap, *options, "kafka.Kafka", str(self._properties_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(lambda: self._has_started(marker), "broker started", seconds=60, every=0.05)

    def stop(self, grace_seconds: float = 30) -> None:
        """End it in order (SIGTERM), and by SIGKILL if it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash of the machine would."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None

    def _has_started(self, marker: int) -> bool:
        if self.pid is None:
            raise LabError(f"the broker ended while starting:\n{self.log.read_text()[-3000:]}")
        with self.log.open("rb") as log:
            log.seek(marker)
            return b"Kafka Server started" in log.read()

    def _explain_death(self) -> str | None:
        """Return the end of its log if it ended without being stopped or killed."""
        code = self._process.poll() if self._process else None
        return None if code is None else f"the broker ended with code {code}:\n{self.log.read_text()[-3000:]}"

    def _clean_up(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _java(self) -> list[str]:
        options = list(self._java_options)
        if _archive().exists():
            options += [f"-XX:SharedArchiveFile={_archive()}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        configuration = f"-Dlog4j2.configurationFile={SOURCES / 'kafka' / 'log4j2.properties'}"
        return ["java", *options, configuration, "-cp", f"{kafka_jars.fetch()}/*"]

    @property
    def _properties_file(self) -> Path:
        return self.folder / "server.properties"

    def _format(self) -> None:
        if self._tls:
            self._make_certificates()
        lines = [f"{name}={value}" for name, value in {**self._settings(), **self._extra}.items()]
        self._properties_file.write_text("\n".join(lines) + "\n")
        scram = [
            f"--add-scram={mechanism}=[name={name},password={password}]"
            for name, password in self._users.items()
            for mechanism in _SCRAM
        ]
        data = self.folder / "data"
        parts = [kafka_jars.folder().name, scram] + (["second"] if self._joins else [])
        identity = hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
        formatted = CACHE / f"kafka-data-{identity}"
        if not formatted.exists():
            tool = [*self._java(), "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format"]
            run([*tool, "-t", _CLUSTER_ID, "-c", str(self._properties_file), *scram])
            _keep(data, formatted)
        else:
            shutil.copytree(formatted, data)

    def _make_certificates(self) -> None:
        folder = self.authority.parent
        folder.mkdir()
        pki.make_authority(folder, "kappa-broker")
        pki.make_certificate(folder, "broker", "/CN=localhost", f"DNS:localhost,IP:{self._address}")
        texts = [(folder / name).read_text() for name in ("broker.key", "broker.crt")]
        (folder / "broker.pem").write_text("".join(texts))

    def _protocols(self) -> dict[str, str]:
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        if self._users:
            protocols["SASL"] = "SASL_SSL" if self._tls else "SASL_PLAINTEXT"
        if self._tls:
            protocols["TLS"] = "SSL"
        return protocols

    def _settings(self) -> dict[str, str]:
        protocols = self._protocols()
        listeners = {name: f"{name}://{self._address}:{self._ports[name]}" for name in protocols}
        advertised = [listener for name, listener in listeners.items() if name != "CONTROLLER"]
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self._address}:{self._ports['CONTROLLER']}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": ",".join(
                f"{name}:{value}" for name, value in protocols.items()
            ),
            "log.dirs": str(self.folder / "data"),
            **(self._joining_settings(self._joins, advertised) if self._joins else {}),
            **_SMALL,
            **self._security_settings(),
        }

    def _joining_settings(self, first: "Broker", listeners: Sequence[str]) -> dict[str, str]:
        return {
            "process.roles": "broker",
            "node.id": "2",
            "controller.quorum.voters": f"1@{first._address}:{first._ports['CONTROLLER']}",
            "listeners": ",".join(listeners),
        }

    def _security_settings(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        if self._tls:
            for listener in ("sasl", "tls") if self._users else ("tls",):
                prefix = f"listener.name.{listener}.ssl"
                settings[f"{prefix}.keystore.type"] = "PEM"
                settings[f"{prefix}.keystore.location"] = str(self.folder / "pki" / "broker.pem")
                settings[f"{prefix}.truststore.type"] = "PEM"
                settings[f"{prefix}.truststore.location"] = str(self.authority)
        if self._users:
            modules = "org.apache.kafka.common.security"
            known = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
            settings["listener.name.sasl.sasl.enabled.mechanisms"] = ",".join(("PLAIN", *_SCRAM))
            jaas = {"plain": f"{modules}.plain.PlainLoginModule required {known};"}
            jaas |= {name.lower(): f"{modules}.scram.ScramLoginModule required;" for name in _SCRAM}
            for mechanism, text in jaas.items():
                settings[f"listener.name.sasl.{mechanism}.sasl.jaas.config"] = text
        return settings


# One broker cannot replicate, and a test does not wait for members that may still join.
_SMALL = {
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a kill the controller refuses the broker until its old session has ended.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "log.cleaner.dedupe.buffer.size": "16777216",
    # Otherwise the controller writes a record each half second: a fifth of what a broker costs that does nothing.
    "metadata.max.idle.interval.ms": "0",
}
