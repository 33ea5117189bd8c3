"""A driver from its environment to its exit: it reads the revision, runs, reports how it ended, and stops Spark.

The modules of the driver are loaded, and Kafka is checked, while the JVM starts.
"""

import threading

import structlog
from pyspark.sql import SparkSession

from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_pipelines.driver.jvm import Jvm
from kappa_pipelines.driver.session import launch_jvm
from kappa_pipelines.errors import DriverError, UnavailableError
from kappa_pipelines.exits import describe_exit
from kappa_pipelines.logs import configure_logs
from kappa_pipelines.revision.environment import read_environment, termination_file
from kappa_pipelines.revision.load import load_revision

_SPARK_STOP_SECONDS = 15.0

log = structlog.get_logger()


def run(arguments: list[str], early: Jvm | None) -> int:
    """Run a driver, with the JVM that was started for it, and return the process's exit code."""
    configure_logs()
    try:
        environment = read_environment(arguments)
        revision = load_revision(environment.revision_file)
        configure_logs(
            namespace=revision.namespace, pipeline=revision.pipeline, generation=environment.generation
        )
        launch_jvm(revision, early)
        early = None
        from kappa_pipelines.driver.process import run_driver  # noqa: PLC0415 - while the JVM starts

        ended = run_driver(revision, environment, _report)
    except DriverError as error:
        ended = describe_exit(error)
    except Exception as error:
        log.exception("unexpected")
        ended = describe_exit(UnavailableError(Reason.DRIVER_CRASHED, f"{type(error).__name__}: {error}"))
    _report(ended)
    if early is not None:
        early.end()
    _stop_spark()
    return 0 if ended.graceful else 1


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
