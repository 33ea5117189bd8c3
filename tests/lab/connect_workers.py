"""Workers of Kafka Connect as the operator starts them: its settings, its certificate, the image's own start. Only paths and ports are others."""

import base64
import contextlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

from kappa_operator.certificates.issue import issue
from kappa_operator.certificates.renew import renew
from kappa_operator.certificates.upkeep import write_certificates
from kappa_operator.connect.certificates import build_stores
from kappa_operator.connect.model import ConnectAccess
from kappa_operator.connect.names import REST_PORT, SECRETS_DIR, KafkaClusterResource
from kappa_operator.connect.worker import build_settings
from lab.broker import free_ports
from lab.connect_files import fetch_connect, from_archive
from lab.errors import LabError
from lab.paths import REPOSITORY

_HOST = "localhost"
_GRACE_SECONDS = 45
"""That of the pods."""


def load_program(name: str) -> ModuleType:
    """Return one of the programs of the image as a module."""
    spec = importlib.util.spec_from_file_location(f"connect_{name}", REPOSITORY / "connect" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise LabError(f"connect/{name}.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Worker:
    """One worker; `secrets` is the folder of its mounts."""

    def __init__(self, folder: Path, resource: KafkaClusterResource, mounts: Mapping[str, bytes]) -> None:
        (self.port,) = free_ports(1)
        self.log, self.secrets, self._scratch = folder / "connect.log", folder / "etc", folder / "tmp"
        self._scratch.mkdir(parents=True)
        settings = build_settings(resource).replace(str(REST_PORT), str(self.port))
        settings = settings.replace(SECRETS_DIR, str(self.secrets)).replace(
            "/opt/connect", str(fetch_connect())
        )
        (self.secrets / "sources").mkdir(parents=True)
        for name, content in {**mounts, "connect/worker.properties": settings.encode()}.items():
            (self.secrets / name).parent.mkdir(parents=True, exist_ok=True)
            (self.secrets / name).write_bytes(content)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it as the image does."""
        program = load_program("start")
        complete = self._scratch / "worker.properties"
        added = program.build_settings(self.secrets, self._scratch, _HOST)
        text = (self.secrets / "connect" / "worker.properties").read_text()
        program.write_private(complete, f"{text}\n{program.format_settings(added)}")
        options = ["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *from_archive()]
        options += program.write_log_in(self.secrets, self._scratch)
        command = [each for each in program.build_command(complete, options) if "-javaagent" not in each]
        home, there = str(program.HOME), str(fetch_connect())
        command = [
            each.replace(f"{home}/log4j2", str(REPOSITORY / "connect" / "log4j2")).replace(home, there)
            for each in command
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._scratch, start_new_session=True
            )  # fmt: skip

    def answer(self, path: str = "/health") -> str:
        """Return the first line of what the program in the image gets, which is also the readiness probe; raise LabError where the worker ended."""
        if self._process is None or self._process.poll() is not None:
            raise LabError(f"Kafka Connect ended while starting:\n{self.log.read_text()[-3000:]}")
        try:
            program = load_program("rest")
            line, _ = program.fetch(str(self.secrets / "rest"), _HOST, ("127.0.0.1", self.port), path)
            return str(line)
        except OSError as error:
            return type(error).__name__

    def stop(self, *, graceful: bool) -> None:
        """End it, and wait. One that does not end in order is killed, as a kubelet does."""
        if self._process is None:
            return
        if graceful:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_SECONDS)
        self._process.kill()
        self._process.wait(60)


class WorkerGroup:
    """A context manager: workers of one KafkaCluster, which share a certificate. `log_in` are files below `kafka/`."""

    def __init__(self, resource: KafkaClusterResource, count: int, log_in: Mapping[str, str]) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="kappa-connect-"))
        self._certificates = renew(None, (_HOST,), datetime.now(UTC), for_clients=True)
        mounts = self._build_mounts()
        mounts |= {f"kafka/{name}": text.encode() for name, text in log_in.items()}
        self.workers = tuple(Worker(self._home / str(number), resource, mounts) for number in range(count))

    def _build_mounts(self) -> dict[str, bytes]:
        data = write_certificates(self._certificates) | build_stores(self._certificates)
        return {f"rest/{name}": base64.b64decode(value) for name, value in data.items()}

    def renew(self, number: int) -> None:
        """Renew the certificate, as the operator does, and replace one worker; the others have the one of before."""
        authority = self._certificates.authority
        serving = issue(authority, (_HOST,), datetime.now(UTC), for_clients=True)
        self._certificates = replace(self._certificates, serving=serving)
        worker = self.workers[number]
        worker.stop(graceful=True)
        for name, content in self._build_mounts().items():
            (worker.secrets / name).write_bytes(content)
        worker.start()

    def access(self, number: int) -> ConnectAccess:
        """Return how the operator reaches a worker."""
        own = self._certificates
        url = f"https://{_HOST}:{self.workers[number].port}"
        return ConnectAccess(url, own.bundle, own.serving.certificate, own.serving.key)

    def __enter__(self) -> Self:
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.stop(graceful=False)
            if error is not None:
                sys.stderr.write(worker.log.read_text()[-4000:])
        shutil.rmtree(self._home, ignore_errors=True)
