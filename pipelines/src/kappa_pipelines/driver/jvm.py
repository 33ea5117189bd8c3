"""Starts the JVM of a driver without Spark's scripts, which start a JVM of their own to print its command (ADR 92).

The command is the one that they print, but its main class is the gateway of PySpark. Spark starts that from `SparkSubmit`, which resolves
packages, downloads jars and reads files of settings before. A driver has none of these; where it may have, `is_plain` is False.
"""

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway

CLASS_PATH = "spark.driver.extraClassPath"
_MAIN = "org.apache.spark.api.python.PythonGatewayServer"
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
_OPTIONS = ("spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions")
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


def is_plain(settings: Mapping[str, Any]) -> bool:
    """Return whether the JVM needs nothing of Spark's scripts."""
    home = Path(_find_spark_home())
    jars = [jar for jar in settings.get("spark.jars", "").split(",") if jar]
    return (
        not any(key.startswith(_OF_SCRIPTS) for key in settings)
        and not any(name in os.environ for name in _VARIABLES)
        and not (home / "conf").exists()
        and all(Path(jar).is_file() for jar in jars)
    )


def build_command(settings: Mapping[str, Any]) -> list[str]:
    """Return the command of the JVM, with the options, class path and order of Spark's scripts."""
    home, java = Path(_find_spark_home()), os.environ.get("JAVA_HOME")
    first = [settings[CLASS_PATH]] if CLASS_PATH in settings else []
    found = (home / "conf", *home.glob("jars/slf4j-api-*.jar"), home / "jars" / "*")
    path = os.pathsep.join([*first, *map(str, found)])
    texts = (os.environ.get("SPARK_SUBMIT_OPTS", ""), *(settings.get(key, "") for key in _OPTIONS))
    own, default, extra = map(shlex.split, texts)
    memory = f"-Xmx{settings.get('spark.driver.memory', '1g')}"
    program = "java" if java is None else f"{java}/bin/java"
    return [program, "-cp", path, *own, memory, *default, *extra, *_MODULES, _MAIN]


def launch(settings: Mapping[str, Any]) -> Any:
    """Start the JVM and return PySpark's gateway to it; PySparkRuntimeError if it ends."""
    with tempfile.TemporaryDirectory(prefix="kappa-jvm-") as folder:
        info = Path(folder, "connection")
        process = subprocess.Popen(
            build_command(settings),
            stdin=subprocess.PIPE,  # the JVM ends with it
            env={**os.environ, "PYTHONHASHSEED": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info)},
            preexec_fn=_ignore_interrupts,  # noqa: PLW1509 - as PySpark does
        )
        while not info.exists():
            if process.poll() is not None:
                raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
            time.sleep(_POLL_SECONDS)
        written = info.read_bytes()  # the port, the length of the secret, and the secret
    gateway = _connect(int.from_bytes(written[:4], "big"), written[8:].decode())
    gateway.proc = process
    return gateway


def _ignore_interrupts() -> None:
    """Ignore what a terminal sends to all of its processes; the driver ends the JVM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connect(port: int, secret: str) -> Any:
    """Return PySpark's gateway to a JVM that runs, which it finds by variables."""
    found = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(found)
    try:
        return launch_gateway()  # type: ignore[no-untyped-call]
    finally:
        for name in found:
            del os.environ[name]
