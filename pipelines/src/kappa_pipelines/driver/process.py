"""A driver in its process: its control server, its signals, and the end of its JVM."""

import os
import signal
import threading
import time
from collections.abc import Callable

import structlog
from pyspark import SparkContext

from kappa_crds.progress import DriverExit, DriverState
from kappa_crds.revision import Revision
from kappa_pipelines.driver.driver import Driver
from kappa_pipelines.errors import DriverError, UnavailableError
from kappa_pipelines.exits import describe_exit
from kappa_pipelines.failures.refusals import explain_end
from kappa_pipelines.reporting.certificate import build_context, has_certificate
from kappa_pipelines.reporting.control import Control, ControlServer
from kappa_pipelines.reporting.metrics import DriverCollector, build_registry
from kappa_pipelines.revision.environment import Environment

_NOTICE_SECONDS = 5.0

Report = Callable[[DriverExit], None]
"""Writes the termination message."""

log = structlog.get_logger()


def run_driver(revision: Revision, environment: Environment, report: Report) -> DriverExit:
    """Run a driver that can be controlled until it ends; DriverError gives the reason of a failure."""
    driver = Driver(revision, environment)
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
    threading.Thread(target=_watch_jvm, args=(report,), name="jvm", daemon=True).start()
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


def _watch_jvm(report: Report) -> None:
    """End this process if its JVM has ended and no thread has noticed.

    A program that a JVM starts inherits its connections. If the JVM is killed then, they stay open, and a thread that waits for a
    response waits without limit.
    """
    while SparkContext._gateway is None:
        time.sleep(1.0)
    code = SparkContext._gateway.proc.wait()
    time.sleep(_NOTICE_SECONDS)
    error = explain_end(code)
    message = f"{error.message}; its connections were still open {_NOTICE_SECONDS:.0f} s later"
    report(describe_exit(UnavailableError(error.reason, message)))
    os._exit(1)
