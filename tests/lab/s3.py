"""An S3 server for a test: versitygw over a temporary folder, on the loopback or where pods reach it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lab import toolchain
from lab.broker import free_ports
from lab.controlplane import answers
from lab.network import NODE_IP
from lab.server import LabServer

FOR_PODS = NODE_IP
REGION = "us-east-1"
_PREFIX, _PYTHON = "s3_", "object_store/"
_OPERATION, _KEY = 7, 8
"""Words of a line of the log."""


class Request(NamedTuple):
    """A request as the server logs it: `PutObject`, the key of the object or `-`, and whether the client was a JVM."""

    operation: str
    key: str
    of_jvm: bool


class ObjectStore(LabServer):
    """A context manager with `endpoint`, `access_key` and `secret_key`; buckets are folders of `folder`.

    `address` is where it listens: the loopback, or `FOR_PODS`, which pods and the host reach while the
    cluster is up.
    """

    name = "S3 server"

    def __init__(
        self, *, address: str = "127.0.0.1", access_key: str = "kappa", secret_key: str = "kappa-secret"
    ):
        super().__init__()
        self.access_key = access_key
        self.secret_key = secret_key
        port = free_ports(1)[0]
        self._listen = f"{address}:{port}"
        self.endpoint = f"http://{self._listen}"
        self.folder = self._home / "buckets"
        self._requests = self._home / "requests"

    def create_bucket(self, name: str) -> None:
        """Make an empty bucket that belongs to the access key."""
        (self.folder / name).mkdir()

    def list_requests(self, since: int = 0) -> list[Request]:
        """Return all requests that it has served, without so many of the first ones."""
        lines = [line.split() for line in self._requests.read_text().splitlines()]
        served = [each for each in lines if len(each) > _KEY and each[_OPERATION].startswith(_PREFIX)]
        return [
            Request(
                each[_OPERATION].removeprefix(_PREFIX),
                each[_KEY],
                not any(word.startswith(_PYTHON) for word in each),
            )
            for each in served[since:]
        ]

    def _prepare(self) -> None:
        self.folder.mkdir()

    def _build_command(self) -> Sequence[str]:
        options = ["--port", self._listen, "--health", "/health", "--region", REGION]
        options += ["--access-log", str(self._requests)]
        return [str(toolchain.program("versitygw")), *options, "posix", str(self.folder)]

    def _build_environment(self) -> Mapping[str, str]:
        """Return the keys: other users of the machine can read arguments."""
        return {
            "ROOT_ACCESS_KEY": self.access_key,
            "ROOT_SECRET_KEY": self.secret_key,
            "HOME": str(self._home),
        }

    def _serves(self) -> bool:
        return answers(f"{self.endpoint}/health")
