"""Starts the JVM of a driver, as the first that the process does, without Spark's scripts, which start a JVM of their own to print its command.

The command is the one that they print (ADR 92), but its main class is ours, which runs the gateway of PySpark and opens a session meanwhile
(ADR 93). Spark starts the gateway from `SparkSubmit`, which resolves packages, downloads jars and reads files of settings before. A driver has
none of these; where it may have, `is_plain` is False.

This module loads neither PySpark nor the models of a revision. `start_early` starts the JVM by what the file of the revision has for it. When
the revision has been read, its command is built again, and a JVM with another one is not used.
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from kappa_pipelines.jars import OWN
from kappa_pipelines.revision.java import FILE_SYSTEM, HADOOP_FILES, JAVA_OPTIONS, OF_DRIVER

REVISION_FILE = Path("/etc/kappa/revision/revision.json")
"""That of a pod, as `kappa_crds.revision` has it."""
CLASS_PATH = "spark.driver.extraClassPath"
_MAIN = "kappa.start.Driver"
_OPENED = [
    "java.base/java.lang",
    "java.base/java.lang.invoke",
    "java.base/java.lang.reflect",
    "java.base/java.io",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/sun.nio.cs",
    "java.base/sun.security.action",
    "java.base/sun.util.calendar",
    "java.security.jgss/sun.security.krb5",
]
_MODULES = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)
"""Those of Spark's scripts."""
_OPTIONS = (OF_DRIVER, "spark.driver.extraJavaOptions")
_OF_SCRIPTS = (
    "spark.archives",
    "spark.driver.extraLibraryPath",
    "spark.driver.userClassPathFirst",
    "spark.files",
    "spark.jars.",
    "spark.submit.",
)
"""Settings, and prefixes of settings, that only Spark's scripts or `SparkSubmit` read."""
_VARIABLES = [
    "HADOOP_CONF_DIR",
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "SPARK_DRIVER_MEMORY",
    "SPARK_MEM",
    "SPARK_PREPEND_CLASSES",
    "SPARK_TESTING",
    "YARN_CONF_DIR",
]
"""Variables that only these read."""
_POLL_SECONDS = 0.005


def find_home() -> Path:
    """Return the folder of Spark."""
    if "SPARK_HOME" in os.environ:
        return Path(os.environ["SPARK_HOME"])
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415 - loads PySpark

    return Path(_find_spark_home())


def use_own_python() -> None:
    """Use the driver's Python installation for Python's workers; executors use the same image."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def complete(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the options of the driver's JVM."""
    with as_file(files("kappa_pipelines") / "log4j2.properties") as properties:
        options = f" -Dlog4j2.configurationFile=file:{properties}{_archive_options()}"
    return {**_find_classes(settings), OF_DRIVER: settings[OF_DRIVER] + options}


def _find_classes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with which the JVM finds the classes of all jars from its start; without the runtime's own jar, with Hadoop's files.

    Hadoop loads our class for local files before Spark adds `spark.jars`. In the image all jars are in Spark's own folders, and the
    JVM takes its archive of classes only with the class path of these.
    """
    home = find_home()
    present = {jar.name for folder in ("jars", "lib") for jar in home.glob(f"{folder}/*.jar")}
    jars = [jar for jar in settings.get("spark.jars", "").split(",") if jar and Path(jar).name not in present]
    found = {**settings, **({CLASS_PATH: os.pathsep.join(jars)} if jars else {})}
    if OWN not in present and not any(jar.endswith(f"/{OWN}") for jar in jars):
        found |= {FILE_SYSTEM: HADOOP_FILES} if FILE_SYSTEM in settings else {}
    return found


def direct_compilers(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with which C2 leaves out what runs only while a driver starts: parsers, and makers of lambda expressions (ADR 84).

    The JVM prints a line about it, which commands of the laptop must not.
    """
    with as_file(files("kappa_pipelines") / "compiler.directives") as directives:
        options = f" -XX:+UnlockDiagnosticVMOptions -XX:CompilerDirectivesFile={directives}"
    return {**settings, OF_DRIVER: settings[OF_DRIVER] + options}


def _archive_options() -> str:
    """Return the JVM options for the class archive of the image, if there is one.

    A JVM with another class path or heap ignores the archive silently. It maps it at the address that it was made for: elsewhere each
    of its 200 MB would be read, changed and kept at the start (ADR 92).
    """
    archive = os.environ.get("KAPPA_CLASS_ARCHIVE")
    if archive is None or not Path(archive).exists():
        return ""
    place = " -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
    return f" -XX:SharedArchiveFile={archive}{place} -Xlog:cds=off -Xlog:cds+dynamic=off"


def is_plain(settings: Mapping[str, Any]) -> bool:
    """Return whether the JVM needs nothing of Spark's scripts."""
    home = find_home()
    jars = [jar for jar in settings.get("spark.jars", "").split(",") if jar]
    return (
        not any(key.startswith(_OF_SCRIPTS) for key in settings)
        and not any(name in os.environ for name in _VARIABLES)
        and not (home / "conf").exists()
        and ((home / "lib" / OWN).exists() or any(Path(jar).name == OWN for jar in jars))
        and all(Path(jar).is_file() for jar in jars)
    )


def build_command(settings: Mapping[str, Any]) -> list[str]:
    """Return the command of the JVM, with the options, class path and order of Spark's scripts."""
    home, java = find_home(), os.environ.get("JAVA_HOME")
    first = [settings[CLASS_PATH]] if CLASS_PATH in settings else []
    found = (home / "conf", *home.glob("jars/slf4j-api-*.jar"), home / "jars" / "*")
    path = os.pathsep.join([*first, *map(str, found)])
    texts = (os.environ.get("SPARK_SUBMIT_OPTS", ""), *(settings.get(key, "") for key in _OPTIONS))
    own, default, extra = map(shlex.split, texts)
    memory = f"-Xmx{settings.get('spark.driver.memory', '1g')}"
    program = "java" if java is None else f"{java}/bin/java"
    return [program, "-cp", path, *own, memory, *default, *extra, *_MODULES, _MAIN]


class Jvm:
    """A JVM that starts. It ends with its input, so with this process."""

    def __init__(self, command: list[str]) -> None:
        use_own_python()
        self.command = command
        self._folder = tempfile.TemporaryDirectory(prefix="kappa-jvm-")
        self._info = Path(self._folder.name, "connection")
        variables = {"PYTHONHASHSEED": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info)}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env={**os.environ, **variables},
            preexec_fn=_ignore_interrupts,  # noqa: PLW1509 - as PySpark does
        )

    def open_session(self, settings: Mapping[str, str]) -> None:
        """Have the JVM open a session with settings; without any it opens none."""
        texts = [text.encode() for pair in settings.items() for text in pair]
        parts = [len(settings).to_bytes(4, "big"), *(len(text).to_bytes(4, "big") + text for text in texts)]
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        self._process.stdin.write(b"".join(parts))
        self._process.stdin.flush()  # it stays open

    def connect(self) -> Any:
        """Return PySpark's gateway to it, which is waited for; PySparkRuntimeError if it ends."""
        while not self._info.exists():
            if self._process.poll() is not None:
                self._folder.cleanup()
                from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - loads PySpark

                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            time.sleep(_POLL_SECONDS)
        written = self._info.read_bytes()  # the port, the length of the secret, and the secret
        self._folder.cleanup()
        gateway = _connect(int.from_bytes(written[:4], "big"), written[8:].decode())
        gateway.proc = self._process
        return gateway

    def end(self) -> None:
        """End a JVM that nothing is connected to."""
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()


def start_early(revision_file: Path) -> Jvm | None:
    """Start the JVM by the settings in the file of a revision, which is not checked; None where it cannot be started so."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(revision_file.read_bytes())
        conf = found.get("sparkConf") if isinstance(found, dict) else None
        if isinstance(conf, dict) and all(isinstance(each, str) for each in conf.values()):
            return start_plain(complete({OF_DRIVER: JAVA_OPTIONS, **conf}))
    return None


def start_plain(settings: Mapping[str, Any], early: Jvm | None = None) -> Jvm | None:
    """Start the JVM for complete settings, unless the one that was started early has the same command; None if it needs Spark's scripts."""
    command = build_command(direct_compilers(settings)) if is_plain(settings) else []
    if early is not None and early.command == command:
        return early
    if early is not None:
        early.end()
    return Jvm(command) if command else None


def _ignore_interrupts() -> None:
    """Ignore what a terminal sends to all of its processes; the driver ends the JVM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connect(port: int, secret: str) -> Any:
    """Return PySpark's gateway to a JVM that runs, which it finds by variables."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - loads PySpark

    found = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(found)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in found:
            del os.environ[name]
