"""A real HDFS for a test: a NameNode and a DataNode of Hadoop's own jar for such clusters.

Maven fetches that jar; what else the two need is in pyspark. They are up in some ten seconds.
"""

import getpass
import hashlib
import json
import shutil
import subprocess
import tempfile
import urllib.request
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from lab.broker import free_ports
from lab.errors import LabError
from lab.maven import make_once
from lab.paths import CACHE
from lab.progress import step
from lab.shell import run, wait_until

VERSION = "3.5.0"
_SHA256 = "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c"
_ARTIFACT = "hadoop-client-minicluster"
_NEEDED = (
    "hadoop-client-api-",
    "hadoop-client-runtime-",
    "slf4j-api-",
    "log4j-",
    "jcl-over-slf4j-",
    "commons-",
)
_SERVER = "org.apache.hadoop.hdfs.server"
_NAMENODE, _DATANODE = f"{_SERVER}.namenode.NameNode", f"{_SERVER}.datanode.DataNode"
_OPTIONS = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_ADMINISTRATOR = getpass.getuser()


def fetch() -> Path:
    """Return the jar of the servers, fetched if it is not in the cache."""
    target = CACHE / f"{_ARTIFACT}-{VERSION}-{_SHA256[:12]}.jar"
    return make_once(target, lambda: _fetch(target))


def _fetch(target: Path) -> None:
    with step("hdfs", done="fetched"), tempfile.TemporaryDirectory(dir=CACHE) as part:
        what = f"-Dartifact=org.apache.hadoop:{_ARTIFACT}:{VERSION}"
        run(["mvn", "-q", "-B", "dependency:copy", what, f"-DoutputDirectory={part}"])
        jar = Path(part) / f"{_ARTIFACT}-{VERSION}.jar"
        found = hashlib.sha256(jar.read_bytes()).hexdigest()
        if found != _SHA256:
            raise LabError(f"{jar.name} has the sha256 {found}, expected {_SHA256}")
        jar.rename(target)


def _list_jars() -> list[Path]:
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise LabError("pyspark is not installed: run `make setup`")
    jars = sorted((Path(spark.origin).parent / "jars").glob("*.jar"))
    return [fetch(), *(jar for jar in jars if jar.name.startswith(_NEEDED))]


class Hdfs:
    """A context manager; `namenode` and `web` are its addresses. The user who started it has all permissions.

    `address` is where the servers listen: the loopback, or the node's own address, which pods and the host reach.
    """

    def __init__(self, *, address: str = "127.0.0.1") -> None:
        ports = free_ports(5)
        self.namenode = f"{address}:{ports[0]}"
        self.web = f"http://{address}:{ports[1]}"
        self._address = address
        self._ports = ports
        self._home = Path(tempfile.mkdtemp(prefix="kappa-hdfs-"))
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        self._path = ":".join(map(str, (self._home, *_list_jars())))
        try:
            self._configure()
            self._format()
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
        """Start both servers, the first time or again on the same data; returns when they serve."""
        if not self._processes:
            self._processes = [self._launch(_NAMENODE), self._launch(_DATANODE)]
            wait_until(self._serves, "HDFS serves", seconds=120)

    def kill(self) -> None:
        """End both servers at once; their data stay until the context ends."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes = []

    def give(self, path: str, user: str) -> None:
        """Make a folder that belongs to a user who may do nothing elsewhere."""
        self._ask("PUT", path, op="MKDIRS")
        self._ask("PUT", path, op="SETOWNER", owner=user)

    def remove(self, path: str) -> None:
        """Remove a folder with all that is in it."""
        self._ask("DELETE", path, op="DELETE", recursive="true")

    def _ask(self, method: str, path: str, **query: str) -> None:
        asked = urlencode({"user.name": _ADMINISTRATOR, **query})
        request = urllib.request.Request(f"{self.web}/webhdfs/v1{path}?{asked}", method=method)
        with urllib.request.urlopen(request, timeout=30):
            pass

    def _configure(self) -> None:
        address = self._address
        settings = {
            "fs.defaultFS": f"hdfs://{self.namenode}",
            "dfs.namenode.http-address": self.web.removeprefix("http://"),
            "dfs.namenode.name.dir": f"file://{self._home}/name",
            "dfs.datanode.data.dir": f"file://{self._home}/data",
            "dfs.datanode.hostname": address,
            "dfs.datanode.address": f"{address}:{self._ports[2]}",
            "dfs.datanode.http.address": f"{address}:{self._ports[3]}",
            "dfs.datanode.ipc.address": f"{address}:{self._ports[4]}",
            "dfs.namenode.safemode.extension": "0",
            "dfs.replication": "1",
            # A small file takes no longer than its block report; else the datanode asks for the first time after 400 ms.
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",
            "dfs.client.block.write.locateFollowingBlock.retries": "12",
        }
        said = "".join(
            f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items()
        )
        (self._home / "hdfs-site.xml").write_text(f"<configuration>{said}</configuration>")

    def _format(self) -> None:
        """Make an empty file system, or take the one that was made before."""
        formatted = CACHE / f"hdfs-name-{_SHA256[:12]}"
        if not formatted.exists():
            run(["java", *_OPTIONS, "-cp", self._path, _NAMENODE, "-format", "-nonInteractive"])
            make_once(formatted, lambda: self._keep(formatted))
        else:
            shutil.copytree(formatted, self._home / "name")

    def _keep(self, formatted: Path) -> None:
        part = CACHE / f".{self._home.name}.part"
        shutil.copytree(self._home / "name", part)
        part.rename(formatted)

    def _launch(self, server: str) -> "subprocess.Popen[bytes]":
        with (self._home / f"{server.rpartition('.')[2]}.log").open("ab") as log:
            return subprocess.Popen(
                ["java", *_OPTIONS, "-cp", self._path, server],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._home,
                start_new_session=True,
            )

    def _serves(self) -> bool:
        if any(process.poll() is not None for process in self._processes):
            said = "\n".join(log.read_text()[-2000:] for log in self._home.glob("*.log"))
            raise LabError(f"HDFS ended while starting:\n{said}")
        state = self._read_state()
        return state.get("NumLiveDataNodes") == 1 and state.get("FSState") == "Operational"

    def _read_state(self) -> dict[str, Any]:
        try:
            bean = "Hadoop:service=NameNode,name=FSNamesystemState"
            with urllib.request.urlopen(f"{self.web}/jmx?qry={bean}", timeout=5) as answer:
                beans = json.loads(answer.read())["beans"]
        except OSError:
            return {}
        return dict(beans[0]) if beans else {}

    def _clean_up(self) -> None:
        self.kill()
        shutil.rmtree(self._home, ignore_errors=True)
