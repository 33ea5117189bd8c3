"""Maps failures of Spark and Kafka to a reason, a message, and whether a retry can help. Pure.

The rules are data: each has classes of exceptions, Spark's error conditions or parts of a message. The chain of causes is
searched rule by rule, so that a specific rule precedes a general one.
"""

import re
from dataclasses import dataclass

from kappa_crds.reasons import Reason
from kappa_pipelines.errors import DriverError, LostDataError, SpecError, UnavailableError
from kappa_pipelines.failures.exceptions import Cause, Failure

_RAISED = "[USER_RAISED_EXCEPTION] "
NOT_WRITTEN = "[ROWS_NOT_WRITTEN] "
"""Prefix of the error of a task that could not write its rows in a transaction; Kafka's name of the error follows."""
UNKNOWN_SCHEMA = "a record has a schema id that was not known at the start"
"""Message of the error of a query that reads such a record."""

_PLAN = r"(; line \d+ pos \d+)?;\n"
"""Separates the message of Spark's analyser from the plan."""


@dataclass(frozen=True)
class Rule:
    """Any exception of a chain that matches `pattern` (on `class: message`) or has a `condition` fits."""

    error: type[DriverError]
    reason: Reason
    advice: str
    pattern: str = r"(?!)"
    conditions: tuple[str, ...] = ()

    def fits(self, cause: Cause) -> bool:
        """Return whether the rule matches this exception."""
        if cause.condition and cause.condition.startswith(self.conditions or ("\0",)):
            return True
        return re.search(self.pattern, str(cause)) is not None


RULES: tuple[Rule, ...] = (
    Rule(
        UnavailableError,
        Reason.SCHEMA_ADDED,
        "records have a schema that was not in the registry when the driver started; the driver restarts and requests it",
        pattern=UNKNOWN_SCHEMA,
    ),
    Rule(
        UnavailableError,
        Reason.CHECKPOINT_UNAVAILABLE,
        "the checkpoint's store is full; free or add space",
        pattern=r"No space left on device|Disk quota exceeded|DiskErrorException|QuotaExceeded",
    ),
    Rule(
        LostDataError,
        Reason.STATE_INCOMPATIBLE,
        "the state of the checkpoint does not fit this revision; restore the previous views, or reprocess the"
        " topics into a new checkpoint",
        conditions=(
            "STATE_STORE_KEY_SCHEMA",
            "STATE_STORE_VALUE_SCHEMA",
            "STATE_STORE_STATE_SCHEMA",
            "STATE_STORE_COLUMN_FAMILY_SCHEMA",
            "STATE_STORE_INVALID_",
            "STATE_STORE_OPERATOR_NOT_SUPPORTED",
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH",
            "INCOMPATIBLE_ROW_BINARY",
            "STREAM_STATE",
            "STDS_",
        ),
        pattern=r"StateSchemaNotCompatible|InvalidUnsafeRowException|StateStore(Key|Value)RowFormatValidation"
        r"|the state was kept by another",
    ),
    Rule(
        LostDataError,
        Reason.OFFSETS_LOST,
        "the topic no longer has records that the checkpoint needs (retention, or the topic was created again);"
        " increase the retention to prevent this, and reprocess the available records",
        conditions=("KAFKA_DATA_LOSS", "KAFKA_START_OFFSET_DOES_NOT_MATCH"),
        pattern=r"OffsetOutOfRangeException|data may have been (lost|missed)|offset was changed from",
    ),
    Rule(
        UnavailableError,
        Reason.SOURCE_TOPIC_DELETED,
        "a topic or partition no longer exists",
        pattern=r"UnknownTopicOrPartitionException|UnknownTopicIdException|InvalidTopicException"
        r"|ROWS_NOT_WRITTEN\] (UNKNOWN_TOPIC_OR_PART(ITION)?|_UNKNOWN_TOPIC|_UNKNOWN_PARTITION):",
    ),
    Rule(
        UnavailableError,
        Reason.AUTHENTICATION_FAILED,
        "Kafka refused the credentials; check the Secret of the KafkaCluster",
        pattern=r"SaslAuthenticationException|LoginException|IllegalSaslStateException"
        r"|ROWS_NOT_WRITTEN\] (_AUTHENTICATION|SASL_AUTHENTICATION_FAILED):",
    ),
    Rule(
        UnavailableError,
        Reason.TLS_FAILED,
        "no secure connection to Kafka; check the CA and the host names of the brokers",
        pattern=r"SslAuthenticationException|SSLHandshakeException|InvalidTruststore|Failed to load PEM"
        r"|ROWS_NOT_WRITTEN\] _SSL:",
    ),
    Rule(
        UnavailableError,
        Reason.AUTHORIZATION_FAILED,
        "Kafka does not allow this user to read or write here; grant it (READ on sources, WRITE on sinks; for a sink with delivery"
        " ExactlyOnce also READ on its topic and group, and WRITE on its transactional ids)",
        pattern=r"(Topic|Group|Cluster|TransactionalId)AuthorizationException"
        r"|ROWS_NOT_WRITTEN\] (TOPIC|GROUP|CLUSTER|TRANSACTIONAL_ID)_AUTHORIZATION_FAILED:",
    ),
    Rule(
        UnavailableError,
        Reason.KAFKA_UNAVAILABLE,
        "Kafka does not respond",
        pattern=r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network|BrokerNotAvailable|NotEnoughReplicas)"
        r"|Timed out waiting for a node assignment|No resolvable bootstrap urls"
        r"|ROWS_NOT_WRITTEN\] (_TIMED_OUT|_MSG_TIMED_OUT|_TIMED_OUT_QUEUE|_TRANSPORT|_ALL_BROKERS_DOWN|_WAIT_COORD|REQUEST_TIMED_OUT"
        r"|COORDINATOR_\w+|NOT_COORDINATOR|BROKER_NOT_AVAILABLE|NOT_ENOUGH_REPLICAS\w*|NETWORK_EXCEPTION):",
    ),
    Rule(
        UnavailableError,
        Reason.QUERY_FAILED,
        "Kafka's brokers do not allow a transaction of the duration that this runtime needs; set transaction.max.timeout.ms to 600000 or more",
        pattern=r"ROWS_NOT_WRITTEN\] INVALID_TRANSACTION_TIMEOUT:",
    ),
    Rule(
        UnavailableError,
        Reason.QUERY_FAILED,
        "a batch takes too long to write; bound it with trigger.maxRecords",
        pattern=r"ROWS_NOT_WRITTEN\] TRANSACTION_TIMED_OUT:",
    ),
    Rule(
        UnavailableError,
        Reason.QUERY_FAILED,
        "another process aborted a transaction, and nothing of it was written; the driver restarts and writes the batch",
        pattern=r"ROWS_NOT_WRITTEN\] (FENCED|MARKER_LOST):",
    ),
    Rule(
        UnavailableError,
        Reason.CHECKPOINT_UNAVAILABLE,
        "the checkpoint cannot be read or written",
        conditions=(
            "CANNOT_LOAD_CHECKPOINT_FILE_MANAGER",
            "STATE_STORE_CHECKPOINT",
            "CANNOT_LOAD_STATE_STORE",
        ),
        pattern=r"Permission denied|Read-only file system|AccessControlException|AccessDeniedException"
        r"|ParentNotDirectoryException|SafeModeException|StandbyException|Call From \S+ to \S+ failed on"
        r"|Mkdirs failed|NoSuchBucket|ChecksumException|No FileSystem for scheme|UnsupportedFileSystem",
    ),
    Rule(
        UnavailableError,
        Reason.DRIVER_OUT_OF_MEMORY,
        "give the driver or the executors more memory",
        pattern=r"java\.lang\.OutOfMemoryError",
    ),
    Rule(
        SpecError,
        Reason.UNSUPPORTED_QUERY,
        "Spark cannot run this as a stream",
        conditions=("STREAMING_OUTPUT_MODE", "UNSUPPORTED_STREAMING", "STREAMING_", "UNSUPPORTED_FEATURE"),
        pattern=r"AnalysisException: .*streaming DataFrames",
    ),
    Rule(
        SpecError,
        Reason.QUERY_FAILED,
        "a view's expression fails on the data, and a retry would fail too; use try_cast, try_divide and the like",
        conditions=(
            "CAST_INVALID_INPUT",
            "CAST_OVERFLOW",
            "DIVIDE_BY_ZERO",
            "REMAINDER_BY_ZERO",
            "ARITHMETIC_OVERFLOW",
            "INVALID_ARRAY_INDEX",
            "CANNOT_PARSE_TIMESTAMP",
            "NUMERIC_VALUE_OUT_OF_RANGE",
        ),
    ),
    Rule(
        SpecError,
        Reason.QUERY_FAILED,
        "a record has a timestamp that Spark cannot read, and a retry would fail too; delete the records up to it, or remove"
        " trigger.realTime or spark.sql.kappa.nativeKafka, without which the timestamp is read as none;"
        " message.timestamp.before.max.ms of the topic makes Kafka refuse such records",
        conditions=("KAFKA_MALFORMED_RECORD_TIMESTAMP",),
        pattern=r"\[KAFKA_MALFORMED_RECORD_TIMESTAMP",
    ),
    Rule(
        SpecError,
        Reason.QUERY_FAILED,
        "raise_error stopped the query on the data, and a retry would fail too",
        pattern=re.escape(_RAISED),
    ),
)


def classify(failure: Failure, where: str) -> DriverError:
    """Return the error for a failure; `where` names the failed part, such as `sink 'log'`."""
    for rule in RULES:
        for cause in failure.causes:
            if rule.fits(cause):
                return rule.error(rule.reason, f"{where}: {rule.advice}{_quote(cause)}")
    return UnavailableError(Reason.QUERY_FAILED, f"{where} failed{_quote(failure.root)}")


def _quote(cause: Cause) -> str:
    # An error of Python is at the end of a stack trace.
    text = cause.message
    for mark in (_RAISED, NOT_WRITTEN):
        text = text.rpartition(mark)[2]
    text = first_lines(text) or cause.kind
    return f". {cause.kind.rsplit('.', 1)[-1]}: {text}"


def first_lines(message: str) -> str:
    """Return a message without stack traces and plans, as one line of at most 600 characters."""
    kept: list[str] = []
    for line in re.split(_PLAN, message, maxsplit=1)[0].splitlines():
        if re.match(r"\s+at |=== |Driver stacktrace|[+*~!' ]*[:+]- |\s*$", line):
            if kept:
                break
            continue
        kept.append(line.strip())
    text = " ".join(kept)
    return text if len(text) <= 600 else f"{text[:600]} …"
