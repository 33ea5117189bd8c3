"""The driver as a process of its own, as a pod runs it: controlled over HTTP, killed, stopped by a signal."""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kappa_crds.progress import DriverExit, DriverState, Progress
from kappa_crds.reasons import Reason
from kappa_crds.revision import KafkaConnection, Revision
from kappa_pipelines.errors import UnavailableError
from kappa_pipelines.kafka.preflight import check_kafka
from lab.broker import Broker
from spark.processes import TOKEN, DriverProcess
from spark.revisions import build_revision, source, spark_conf
from spark.topics import Topics

_PIDFD_GETFD = 438
COPY: dict[str, Any] = {
    "sources": [source()],
    "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out", "key": ["k"]}}],
}


def _has_malformed(progress: Progress) -> bool:
    return bool(progress.queries) and (progress.queries[0].total_malformed_rows or 0) > 0


def _has_letters(progress: Progress) -> bool:
    return progress.dead_lettered > 0


@pytest.mark.chaos
@pytest.mark.parametrize("moments", [[_has_malformed], [_has_malformed, _has_letters]], ids=["once", "twice"])
def test_no_dead_letter_is_lost_when_drivers_are_killed_and_the_last_one_stops_in_order(
    start: Any, broker: Broker, topics: Any, checkpoint: Path, moments: list[Callable[[Progress], bool]]
) -> None:
    names = {name: topics.make(name) for name in ("flights", "out", "dead")}
    values = [json.dumps({"k": n}) if n % 7 else f'{{"k": "bad {n}"}}' for n in range(13_000)]
    topics.write(names["flights"], values[:12_000])
    spec = {
        "sources": [source()],
        "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out", "key": ["k"]}}],
        "deadLetter": "dead",
        "trigger": {"maxRecords": 1500},
    }
    revision = build_revision(spec, checkpoint, broker.bootstrap, topics=names)
    drivers = []
    for generation, moment in enumerate(
        moments, start=1
    ):  # letters of committed batches are still to be written
        drivers.append(driver := start(revision, generation))
        driver.wait_for(moment.__name__, moment)
        driver.kill()
    topics.write(names["flights"], values[12_000:])  # by now all others may be in committed batches
    drivers.append(driver := start(revision, len(moments) + 1))
    _check_the_doors(driver)
    driver.wait_for(
        "no lag", lambda p: p.state is DriverState.RUNNING and p.lag == 0 and p.queries[0].batch_id >= 0
    )
    assert driver.get("/readyz")[0] == 200
    assert _metric(driver, "lag_records") == 0
    assert _metric(driver, "recovery_seconds") > _metric(driver, "recovery_prepare_seconds") > 0
    assert driver.get("/stop", token=TOKEN, method="POST")[0] == 202
    ended = driver.wait()
    assert (driver.process.returncode, ended.graceful, ended.reason) == (0, True, Reason.DRIVER_STOPPED)
    letters = {m.key(): m.value().decode() for m in topics.read(names["dead"])}
    missing = {value for value in values if "bad" in value} - set(letters.values())
    assert not missing, f"{len(missing)} dead letters are missing: {sorted(missing)[:3]} …\n" + "".join(
        f"--- driver {number}\n{driver.log.read_text()[-3000:]}" for number, driver in enumerate(drivers, 1)
    )
    assert len(letters) == sum("bad" in value for value in values)
    out = {json.loads(m.value())["k"] for m in topics.read(names["out"])}
    assert out == {n for n in range(13_000) if n % 7}
    assert topics.committed("kappa.test.delays", names["flights"]) == topics.ends(names["flights"])


def _check_the_doors(driver: DriverProcess) -> None:
    driver.wait_for("the control server", lambda p: True)
    assert driver.get("/healthz")[0] == 200
    assert driver.get("/metrics")[0] == 200
    assert driver.get("/progress")[0] == 401
    assert driver.get("/stop", method="POST", token="guess")[0] == 401


def _metric(driver: DriverProcess, name: str) -> float:
    found = re.search(rf"^kappa_pipeline_{name}{{[^}}]*}} (\S+)$", driver.get("/metrics")[1], re.MULTILINE)
    assert found is not None, name
    return float(found[1])


def test_a_driver_with_credentials_runs_over_tls_shows_none_and_stops_at_sigterm(
    start: Any, checkpoint: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "username").write_text("reader")
    (secret / "password").write_text("s3cr3t-pass")
    with Broker(users={"reader": "s3cr3t-pass"}, tls=True) as secured:
        topics = Topics(secured.bootstrap)
        names = {name: topics.make(name) for name in ("flights", "out", "dead")}
        topics.write(names["flights"], ['{"k": 1}', "{"])
        kafka = KafkaConnection(
            bootstrap_servers=(secured.sasl_bootstrap,),
            security_protocol="SASL_SSL",
            sasl_mechanism="SCRAM-SHA-512",
            ca_file=str(secured.authority),
            credentials_dir=str(secret),
        )
        spec = {
            "sources": [source()],
            "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}],
            "deadLetter": "dead",
        }
        revision = build_revision(spec, checkpoint, kafka, topics=names)
        driver = start(revision, 1)
        driver.wait_for("a dead letter", lambda p: p.dead_lettered == 1)
        assert "s3cr3t" not in _command_lines(driver.process.pid)
        assert "numpy" not in Path(f"/proc/{driver.process.pid}/maps").read_text()
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait().graceful
        assert "s3cr3t" not in driver.log.read_text()
        assert topics.values(names["out"]) == [{"k": 1, "v": None, "ts": None}]
        assert topics.committed("kappa.test.delays", names["flights"]) == topics.ends(names["flights"])

        (secret / "password").write_text("wrong")
        refused = _check_in_vain(revision)
        assert (refused.reason, refused.retryable) == (Reason.AUTHENTICATION_FAILED, True)
        (secret / "password").write_text("s3cr3t-pass")
        (tmp_path / "other.crt").write_text(_other_authority(tmp_path))
        stranger = kafka.model_copy(update={"ca_file": str(tmp_path / "other.crt")})
        refused = _check_in_vain(revision.model_copy(update={"kafka": stranger}))
        assert refused.reason is Reason.TLS_FAILED, refused.message


def _check_in_vain(revision: Revision) -> UnavailableError:
    """Return the error of the check before Spark; how a driver ends with one is tested below, with a topic that is missing."""
    with pytest.raises(UnavailableError) as raised:
        check_kafka(revision)
    return raised.value


def _command_lines(pid: int) -> str:
    children = subprocess.run(
        ["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split()
    return " ".join(Path(f"/proc/{p}/cmdline").read_bytes().decode() for p in (str(pid), *children))


def _other_authority(folder: Path) -> str:
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=stranger",
        "-days",
        "2",
    ]
    subprocess.run(
        [*command, "-keyout", "/dev/null", "-out", folder / "stranger.crt"], check=True, capture_output=True
    )
    return (folder / "stranger.crt").read_text()


def test_a_driver_without_a_generation_reports_it_and_exits(tmp_path: Path) -> None:
    environment = {**os.environ, "KAPPA_TERMINATION_FILE": str(tmp_path / "exit")}
    environment.pop("KAPPA_GENERATION", None)
    done = subprocess.run(
        [sys.executable, "-m", "kappa_pipelines"], env=environment, capture_output=True, check=False
    )
    ended = DriverExit.model_validate_json((tmp_path / "exit").read_text())
    assert (done.returncode, ended.reason, ended.retryable) == (1, Reason.INVALID_SPEC, False)


def test_a_driver_whose_jvm_cannot_start_reports_it_after_its_checks(
    start: Any, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    """The JVM starts while Kafka is checked: a missing topic is the reason even if both fail."""
    names = {name: topics.make(name) for name in ("flights", "out")}
    conf = {**spark_conf(), "spark.driver.extraJavaOptions": "-agentlib:missing"}
    for generation, missing in ((1, False), (2, True)):
        found = {**names, "out": "missing"} if missing else names
        driver = start(
            build_revision(COPY, checkpoint, broker.bootstrap, topics=found, spark_conf=conf), generation
        )
        ended = driver.wait()
        expected = Reason.TOPIC_NOT_FOUND if missing else Reason.DRIVER_CRASHED
        assert ended.reason is expected, ended
        assert "missing" in ended.message if missing else "JAVA_GATEWAY_EXITED" in ended.message


@pytest.mark.chaos  # `make test` kills a JVM on the cluster
def test_a_driver_whose_jvm_is_killed_ends_also_where_its_connections_stay_open(
    start: Any, broker: Broker, topics: Any, checkpoint: Path
) -> None:
    """As where the JVM was just starting a program, which has all that the JVM has open."""
    names = {name: topics.make(name) for name in ("flights", "out")}
    driver = start(build_revision(COPY, checkpoint, broker.bootstrap, topics=names), 1)
    topics.write(names["flights"], ['{"k": 1}'])
    driver.wait_for("a batch", lambda p: p.queries and p.queries[0].batch_id >= 0)
    found = subprocess.run(
        ["pgrep", "-P", str(driver.process.pid), "java"], capture_output=True, text=True, check=True
    )
    jvm = int(found.stdout)
    held = _borrow_sockets(jvm)
    try:
        assert held
        os.kill(jvm, signal.SIGKILL)
        ended = driver.wait()
    finally:
        for each in held:
            os.close(each)
    assert (ended.reason, ended.retryable) == (Reason.DRIVER_CRASHED, True)
    assert "ended with code -9" in ended.message


def _borrow_sockets(pid: int) -> list[int]:
    """Return descriptors of this process's own for all sockets of another (pidfd_getfd, Linux 5.6)."""
    pidfd, call = os.pidfd_open(pid), ctypes.CDLL(None, use_errno=True).syscall
    sockets = [
        int(path.name) for path in Path(f"/proc/{pid}/fd").iterdir() if "socket:" in str(path.readlink())
    ]
    held = [call(_PIDFD_GETFD, pidfd, number, 0) for number in sockets]
    os.close(pidfd)
    return [number for number in held if number >= 0]
