"""Exceptions of Spark and Kafka become reasons that a person and the operator can act on."""

import pytest

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import UnavailableError, shorten
from kappa_pipelines.exits import describe_exit
from kappa_pipelines.failures.classify import classify, first_lines
from kappa_pipelines.failures.exceptions import Cause, Failure, read_stack_trace

KAFKA = "org.apache.kafka.common.errors"

# Class, message and condition of the innermost exception; the reason; whether starting again can help.
CASES: dict[str, tuple[Cause, Reason, bool]] = {
    "a full disk": (
        Cause("java.io.IOException", "No space left on device"),
        Reason.CHECKPOINT_UNAVAILABLE,
        True,
    ),
    "a namenode that is away": (
        Cause(
            "java.net.ConnectException",
            "Call From pod/10.0.0.7 to namenode:8020 failed on connection exception: Connection refused",
        ),
        Reason.CHECKPOINT_UNAVAILABLE,
        True,
    ),
    "a namenode that has just started": (
        Cause("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Name node is in safe mode."),
        Reason.CHECKPOINT_UNAVAILABLE,
        True,
    ),
    "a checkpoint of another user": (
        Cause("java.io.FileNotFoundException", "/ck/offsets/.7.tmp (Permission denied)"),
        Reason.CHECKPOINT_UNAVAILABLE,
        True,
    ),
    "a new aggregate column": (
        Cause(
            "org.apache.spark.SparkUnsupportedOperationException",
            "x",
            "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
        ),
        Reason.STATE_INCOMPATIBLE,
        False,
    ),
    "a new stateful operator": (
        Cause(
            "org.apache.spark.SparkRuntimeException",
            "x",
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
        ),
        Reason.STATE_INCOMPATIBLE,
        False,
    ),
    "a changed pattern": (
        Cause(
            "org.apache.spark.api.python.PythonException", "ValueError: the state was kept by another pattern"
        ),
        Reason.STATE_INCOMPATIBLE,
        False,
    ),
    "offsets that retention removed": (
        Cause(
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
            "x",
            "KAFKA_DATA_LOSS.START_OFFSET_RESET",
        ),
        Reason.OFFSETS_LOST,
        False,
    ),
    "a deleted topic": (
        Cause(f"{KAFKA}.UnknownTopicOrPartitionException", "This server does not host this topic-partition."),
        Reason.SOURCE_TOPIC_DELETED,
        True,
    ),
    "a wrong password": (
        Cause(f"{KAFKA}.SaslAuthenticationException", "x"),
        Reason.AUTHENTICATION_FAILED,
        True,
    ),
    "an unknown authority": (
        Cause("javax.net.ssl.SSLHandshakeException", "PKIX path building failed"),
        Reason.TLS_FAILED,
        True,
    ),
    "a missing permission": (
        Cause(f"{KAFKA}.TopicAuthorizationException", "x"),
        Reason.AUTHORIZATION_FAILED,
        True,
    ),
    "a broker that is away": (
        Cause(f"{KAFKA}.TimeoutException", "Timed out waiting for a node assignment."),
        Reason.KAFKA_UNAVAILABLE,
        True,
    ),
    "a division by zero": (
        Cause("org.apache.spark.SparkArithmeticException", "x", "DIVIDE_BY_ZERO"),
        Reason.QUERY_FAILED,
        False,
    ),
    "a timestamp with too many microseconds": (
        Cause(
            "org.apache.spark.sql.kafka010.KafkaIllegalStateException",
            "[KAFKA_MALFORMED_RECORD_TIMESTAMP] Record at topic t partition 0 offset 7 has timestamp value 1",
            "KAFKA_MALFORMED_RECORD_TIMESTAMP",
        ),
        Reason.QUERY_FAILED,
        False,
    ),
    "too little memory": (
        Cause("java.lang.OutOfMemoryError", "Java heap space"),
        Reason.DRIVER_OUT_OF_MEMORY,
        True,
    ),
    "anything else": (Cause("java.lang.IllegalStateException", "who knows"), Reason.QUERY_FAILED, True),
}


@pytest.mark.parametrize("case", CASES)
def test_the_innermost_cause_decides(case: str) -> None:
    cause, reason, retryable = CASES[case]
    outer = Cause("org.apache.spark.SparkException", "Job aborted due to stage failure", "STREAM_FAILED")
    error = classify(Failure((outer, cause)), "sink 'out'")
    assert (error.reason, error.retryable) == (reason, retryable)
    assert error.message.startswith("sink 'out'")
    assert cause.message.splitlines()[0] in error.message


def test_a_message_loses_its_stack_trace_and_plan() -> None:
    message = "Something broke\n\n\tat org.apache.spark.X\n=== Streaming Query ===\n+- Project"
    assert first_lines(message) == "Something broke"
    assert first_lines("\n first\n second\n\nthird") == "first second"


def test_a_long_message_fits_into_a_termination_message() -> None:
    error = UnavailableError(Reason.QUERY_FAILED, "ä" * 10_000)
    assert len(describe_exit(error).model_dump_json(by_alias=True).encode()) < 4096
    assert shorten("short") == "short"


TRACE = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
KeyError: 'first'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "sinks/kafka.py", line 8, in write
    frame.collect()
"""


def test_the_exception_of_a_function_that_the_jvm_calls_is_at_the_end_of_its_stack_trace() -> None:
    message = "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide`.\n== SQL (line 1, position 1) ==\na / b"
    cause = read_stack_trace(f"{TRACE}pyspark.errors.exceptions.captured.ArithmeticException: {message}\n\n")
    assert cause == Cause("pyspark.errors.exceptions.captured.ArithmeticException", message, "DIVIDE_BY_ZERO")
    error = classify(Failure((Cause("py4j.Py4JException", TRACE), cause)), "sink 'log'")
    assert (error.reason, error.retryable) == (Reason.QUERY_FAILED, False)
    assert "ArithmeticException: [DIVIDE_BY_ZERO] Division by zero. Use `try_divide`." in str(error)
    assert read_stack_trace(f"{TRACE}KeyboardInterrupt") == Cause("KeyboardInterrupt", "")


@pytest.mark.parametrize("message", ["", "no trace", TRACE])
def test_a_message_without_an_exception_of_python_has_none(message: str) -> None:
    assert read_stack_trace(message) is None
