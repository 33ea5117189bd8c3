"""Converts any exception to a DriverError. It queries Kafka and the JVM if the exception is ambiguous."""

import contextlib
import subprocess

import structlog
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.errors import DriverError, UnavailableError
from kappa_pipelines.failures.classify import classify
from kappa_pipelines.failures.exceptions import read_failure, read_query_failure
from kappa_pipelines.failures.refusals import explain_end
from kappa_pipelines.kafka.preflight import fetch_topics
from kappa_pipelines.kafka.subscription import build_subscription

_AMBIGUOUS = {
    Reason.SOURCE_TOPIC_DELETED,
    Reason.KAFKA_UNAVAILABLE,
    Reason.OFFSETS_LOST,
    Reason.QUERY_FAILED,
}
_TIMEOUT_SECONDS = 10.0
_DYING_SECONDS = 3.0

log = structlog.get_logger()


def explain_query(sink: str, query: StreamingQuery, revision: Revision) -> DriverError:
    """Return the error of a sink's query that has ended."""
    failure = read_query_failure(query)
    if failure is None:
        return UnavailableError(Reason.QUERY_FAILED, f"sink {sink!r}: its query ended without an error")
    log.error("query failed", sink=sink, causes=[str(cause)[:2000] for cause in failure.causes])
    return check_with_kafka(classify(failure, f"sink {sink!r}"), revision)


def check_with_kafka(error: DriverError, revision: Revision) -> DriverError:
    """Return a more precise error if a topic is deleted or Kafka does not respond; else the same one."""
    if error.reason not in _AMBIGUOUS:
        return error
    try:
        topics = fetch_topics(revision, _TIMEOUT_SECONDS)
    except UnavailableError as unavailable:
        return unavailable if error.retryable else error
    for source in revision.spec.sources:
        for topic in build_subscription(revision, source).topics:
            if topic in topics:
                continue
            return UnavailableError(
                Reason.SOURCE_TOPIC_DELETED,
                f"source {source.name!r}: the topic {topic!r} was deleted while the pipeline ran; create it again and"
                " reprocess, because the offsets of the checkpoint are invalid in a new topic",
            )
    return error


def explain(error: Exception) -> DriverError:
    """Return the error of a driver for an exception."""
    if isinstance(error, DriverError):
        return error
    if isinstance(error, PySparkException):
        return classify(read_failure(error), "the driver")
    if isinstance(error, Py4JError | ConnectionError):
        return _explain_jvm(error)
    log.exception("unexpected", exc_info=error)
    return UnavailableError(Reason.DRIVER_CRASHED, f"{type(error).__name__}: {error}")


def _explain_jvm(error: Exception) -> DriverError:
    """Return the error for a call of the JVM that failed."""
    code = _exit_code(0.0 if isinstance(error, Py4JJavaError) else _DYING_SECONDS)
    if code is None:
        return classify(read_failure(error), "the driver")
    return explain_end(code)


def _exit_code(patience: float) -> int | None:
    """Return the exit code of the JVM, None while it runs. A killed JVM closes its connections before its exit code is known."""
    session = SparkSession._instantiatedSession
    process = getattr(session.sparkContext._gateway, "proc", None) if session is not None else None
    if process is None:
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    code: int | None = process.poll()
    return code
