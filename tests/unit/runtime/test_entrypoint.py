"""An executor's JVM starts when the driver accepts connections, which the network may refuse to a new pod for some seconds."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kappa_pipelines

ENTRYPOINT = Path(kappa_pipelines.__file__).parents[2] / "entrypoint.sh"
JAVA = '#!/bin/bash\necho "$@" > "$STARTED"\n'


@contextmanager
def executor(url: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Run the entrypoint as Spark starts an executor; a script that writes its arguments is the JVM."""
    (folder / "java").write_text(JAVA)
    (folder / "java").chmod(0o755)
    names = ("MEMORY", "ID", "CORES", "POD_IP", "POD_NAME")
    environment = {
        **{f"SPARK_EXECUTOR_{name}": name.lower() for name in names},
        **{"SPARK_APPLICATION_ID": "app", "SPARK_RESOURCE_PROFILE_ID": "0", "SPARK_HOME": "/spark"},
        **{"SPARK_DRIVER_URL": url, "SPARK_JAVA_OPT_0": "-Dfirst=1", "SPARK_JAVA_OPT_1": "-Dsecond=2"},
        **{"PATH": f"{folder}:{os.environ['PATH']}", "STARTED": str(folder / "started")},
    }
    process = subprocess.Popen(["bash", str(ENTRYPOINT), "executor"], env=environment)
    try:
        yield process, folder / "started"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("family", "host", "shown"), [(socket.AF_INET, "127.0.0.1", "127.0.0.1"), (socket.AF_INET6, "::1", "[::1]")], ids=["IPv4", "IPv6"])  # fmt: skip
def test_an_executor_starts_when_its_driver_accepts_connections(
    family: socket.AddressFamily, host: str, shown: str, tmp_path: Path
) -> None:
    with socket.socket(family) as driver:
        driver.bind((host, 0))
        url = f"spark://CoarseGrainedScheduler@{shown}:{driver.getsockname()[1]}"
        with executor(url, tmp_path) as (process, started):
            time.sleep(0.5)
            assert process.poll() is None and not started.exists()
            driver.listen()
            assert process.wait(20) == 0
            arguments = started.read_text().split()
    assert arguments[:2] == ["-Dfirst=1", "-Dsecond=2"]
    assert arguments[arguments.index("--driver-url") + 1] == url
