"""The entry point of a driver pod: `python -m kappa_pipelines [REVISION_FILE]`.

It exits with 0 only after a graceful stop. The termination message of the container is always a `DriverExit` in JSON.
"""

import os
import signal
import sys
import threading
import time

import structlog
from pyspark import SparkContext
from pyspark.sql import SparkSession

from kappa_crds.progress import DriverExit, DriverState
from kappa_crds.reasons import Reason
from kappa_pipelines.driver.driver import Driver
from kappa_pipelines.errors import DriverError, UnavailableError
from kappa_pipelines.exits import describe_exit
from kappa_pipelines.logs import configure_logs
from kappa_pipelines.reporting.certificate import build_context, has_certificate
from kappa_pipelines.reporting.control import Control, ControlServer
from kappa_pipelines.reporting.metrics import DriverCollector, build_registry
from kappa_pipelines.revision.environment import Environment, read_environment, termination_file
from kappa_pipelines.revision.load import load_revision

_SPARK_STOP_SECONDS = 15.0
_NOTICE_SECONDS = 5.0

log = structlog.get_logger()


def main(arguments: list[str]) -> int:
    """Run a driver and return the process's exit code."""
    configure_logs()
    try:
        environment = read_environment(arguments)
        revision = load_revision(environment.revision_file)
        configure_logs(
            namespace=revision.namespace, pipeline=revision.pipeline, generation=environment.generation
        )
        ended = _run(Driver(revision, environment), environment)
    except DriverError as error:
        ended = describe_exit(error)
    except Exception as error:
        log.exception("unexpected")
        ended = describe_exit(UnavailableError(Reason.DRIVER_CRASHED, f"{type(error).__name__}: {error}"))
    _report(ended)
    _stop_spark()
    return 0 if ended.graceful else 1


def _run(driver: Driver, environment: Environment) -> DriverExit:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: driver.request_stop())
    registry = build_registry(DriverCollector(driver.snapshot, driver.counts, time.time))
    control = Control(
        snapshot=driver.snapshot,
        is_alive=lambda: driver.record.state is not DriverState.FAILED,
        stop=driver.request_stop,
        activate=driver.activate,
        take_savepoint=driver.request_savepoint,
        hold=driver.request_hold,
        advance=driver.request_advance,
        compare=driver.request_comparison,
        resume=driver.request_continue,
        set_role=driver.set_role,
        has_batches=driver.has_batches,
        registry=registry,
        token_file=environment.control_token_file,
        has_certificate=has_certificate(environment.control_token_file.parent),
    )
    _serve(control, environment)
    threading.Thread(target=_watch_jvm, name="jvm", daemon=True).start()
    try:
        return driver.run()
    except DriverError as error:
        driver.record.set_state(DriverState.FAILED, describe_exit(error))
        raise


def _serve(control: Control, environment: Environment) -> None:
    """Start the control server, and the one with TLS where there is a certificate."""
    server = ControlServer(control.app(), environment.control_port)
    server.start()
    log.info("control server started", port=server.port)
    if control.has_certificate:
        tls = build_context(environment.control_token_file.parent)
        secure = ControlServer(control.app(), environment.control_tls_port, tls=tls)
        secure.start()
        log.info("control server with TLS started", port=secure.port)


def _watch_jvm() -> None:
    """End this process if its JVM has ended and no thread has noticed.

    A program that a JVM starts inherits its connections. If the JVM is killed then, they stay open, and a thread that waits for a
    response waits without limit.
    """
    while SparkContext._gateway is None:
        time.sleep(1.0)
    code = SparkContext._gateway.proc.wait()
    time.sleep(_NOTICE_SECONDS)
    message = f"the JVM has ended ({code}), and its connections were still open {_NOTICE_SECONDS:.0f} s later"
    _report(describe_exit(UnavailableError(Reason.DRIVER_CRASHED, message)))
    os._exit(1)


def _report(ended: DriverExit) -> None:
    """Write the termination message."""
    text = ended.model_dump_json(by_alias=True)
    log.info("ended", **ended.model_dump(mode="json"))
    try:
        termination_file().write_text(text)
    except OSError as error:
        log.warning("the termination message cannot be written", error=str(error))


def _stop_spark() -> None:
    """Stop Spark within a timeout, so that executors end and state is unloaded."""
    session = SparkSession._instantiatedSession
    if session is None:
        return
    thread = threading.Thread(target=session.stop, daemon=True)
    thread.start()
    thread.join(_SPARK_STOP_SECONDS)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a hanging JVM or thread must not keep the pod alive
