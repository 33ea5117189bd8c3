"""An S3 server for a test: versitygw over a temporary folder, on the loopback or where pods reach it."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from lab import toolchain
from lab.broker import free_ports
from lab.controlplane import answers
from lab.errors import LabError
from lab.network import NODE_IP
from lab.shell import wait_until

FOR_PODS = NODE_IP
REGION = "us-east-1"


class ObjectStore:
    """A context manager with `endpoint`, `access_key` and `secret_key`; buckets are folders of `folder`.

    `address` is where it listens: the loopback, or `FOR_PODS`, which pods and the host reach while the
    cluster is up.
    """

    def __init__(
        self, *, address: str = "127.0.0.1", access_key: str = "kappa", secret_key: str = "kappa-secret"
    ):
        self.access_key = access_key
        self.secret_key = secret_key
        port = free_ports(1)[0]
        self._listen = f"{address}:{port}"
        self.endpoint = f"http://{self._listen}"
        self._home = Path(tempfile.mkdtemp(prefix="kappa-s3-"))
        self.folder = self._home / "buckets"
        self.log = self._home / "s3.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.folder.mkdir()
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
        """Start it, the first time or again on the same data; returns when it answers."""
        if self._process is not None:
            return
        options = ["--port", self._listen, "--health", "/health", "--region", REGION]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(toolchain.program("versitygw")), *options, "posix", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # By the environment, because other users of the machine can read arguments.
                env={
                    "ROOT_ACCESS_KEY": self.access_key,
                    "ROOT_SECRET_KEY": self.secret_key,
                    "HOME": str(self._home),
                },
                start_new_session=True,
            )
        wait_until(self._serves, "S3 server serves", seconds=20)

    def _serves(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise LabError(f"the S3 server ended while starting:\n{self.log.read_text()[-2000:]}")
        return answers(f"{self.endpoint}/health")

    def kill(self) -> None:
        """End it at once; its data stay until the context ends."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create_bucket(self, name: str) -> None:
        """Make an empty bucket that belongs to the access key."""
        (self.folder / name).mkdir()

    def _clean_up(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)
