"""What the failure of a connector means, in our words. The stack trace has text of the database, so it only decides which."""

import re
from dataclasses import dataclass

from kappa_crds.cdcsource import LARGEST_RECORD
from kappa_crds.quantities import format_size

_EXCEPTION = re.compile(r"\s*(?:[a-z_0-9]+\.)*([A-Z]\w{0,80}(?:Exception|Error))\b")
_LOST = (
    "no longer available on the server",
    "Could not find GTID state requested by",
    "Could not find first log file name in binary log",
    "required binary logs have been purged",
    "purged required binary logs",
    "which is not in the master's binlog",
    "from position > file size",
    "from impossible position",
)
"""PostgreSQL and Debezium have the first; the others are errors 1236 and 1789 of MariaDB and MySQL."""
_UNPUBLISHED = re.compile(
    r'publication ".{1,130}" does not exist\s+Where: slot ".{1,63}", output plugin "pgoutput"'
)
"""As PostgreSQL 15 has it. A slot decodes a change with the publications of its time, so one that is created later does not help."""
_TOO_LARGE = re.compile(
    r"RecordTooLargeException: The message is (\d{1,12}) bytes when serialized which is larger than (\d{1,12})\b"
)
"""As the producer of Kafka 4 has it. Only its numbers are used."""
_GONE = "the database does not have the changes after the last one that was read any more"
_LARGE = "RecordTooLargeException"
_REFUSED = f"{_LARGE}: The request included a message larger than"
"""As the producer has it where a broker refuses a record."""
_SHORTEN = "leave out or truncate its large column with spec.columns"
_RAISE = f"set spec.maxRecordSize, or {_SHORTEN}"
_NAMED = "the log of the workers has its topic, after: failed to send record to"
"""Neither the status of a task nor its trace has the topic."""
_CAUSES = (
    *((part, _GONE) for part in _LOST),
    ("db history topic is missing", "the topic with the history of the schemas is empty; request a snapshot"),
    ("schema isn't known to this connector", "the connector does not know the schema of a table that was added; request a snapshot"),
    ("is active for PID", "another process reads the replication slot; end it, or wait until the database notices that it is gone"),
    ("password authentication failed", "the database refuses the user or the password"),
    ("Access denied for user", "the database refuses the user or the password"),
    ("no pg_hba.conf entry", "pg_hba.conf of the database does not admit the workers of Kafka Connect"),
    ("must be superuser or replication role", "the user may not use replication"),
    ("permission denied", "the user of the connector lacks a permission in the database"),
    ("must be owner of", "the user of the connector does not own what it has to change in the database"),
    ("all replication slots are in use", "the database has no free replication slot; raise max_replication_slots"),
    ("identity was not confirmed", "the certificate of the database is not for its host; for an address, it has to be for the name that it resolves to"),
    ("UnknownHostException", "the workers of Kafka Connect cannot resolve the host of the database"),
    ("Connection refused", "nothing listens at the address of the database, or a policy refuses the workers"),
    ("connect timed out", "the database does not answer the workers of Kafka Connect"),
    ("terminating connection", "the database closed the connection"),
    ("Database connection failed", "the connection to the database broke"),
    ("This connection has been closed", "the connection to the database broke"),
    ("Java heap space", f"a worker has too little memory for a row; raise its memory, or {_SHORTEN}"),
    ("UnknownServerException", "a broker could not process a request; its log has details, such as a lack of memory for large records"),
    ("Compacted topic cannot accept message without key", "a compacted topic takes no record without a key; set spec.keys for a table without one; after a TRUNCATE, set spec.topics.cleanup to compact, or cleanup.policy of the topic to delete"),
    ("InvalidRecordException", "a broker refuses a record; a table without a key needs spec.keys, or topics with cleanup delete"),
    ("TopicAuthorizationException", "the user of the workers may not write to a topic"),
    ("TransactionalIdAuthorizationException", "the user of the workers may not use transactions"),
    ("InvalidReplicationFactorException", "there are fewer brokers than spec.topics.replication"),
    ("ProducerFencedException", "another task with the same name took over"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FailureCause:
    """Why a connector failed. `is_lost` where it cannot continue without a gap, `needs_new_slot` where the slot always fails."""

    message: str
    is_lost: bool = False
    needs_new_slot: bool = False


@dataclass(frozen=True, slots=True)
class LargeRecord:
    """The topic of a record that was too large, and the `max.message.bytes` of the topic, as far as they are known."""

    topic: str = ""
    limit: str = ""


_UNKNOWN = LargeRecord()


def explain_failure(trace: str, record: LargeRecord = _UNKNOWN) -> FailureCause:
    """Return the cause; the name of the exception where the cause is unknown. `record` is meant where one was too large."""
    if _UNPUBLISHED.search(trace):
        message = "the publication was dropped, and the slot cannot decode changes from before the next one"
        return FailureCause(message, is_lost=True, needs_new_slot=True)
    if _LARGE in trace:
        return FailureCause(_explain_large(trace, record))
    for part, message in _CAUSES:
        if part in trace:
            return FailureCause(message, part in _LOST)
    found = _EXCEPTION.match(trace)
    name = found[1] if found else "unknown error"
    return FailureCause(f"{name}; the log of the workers has details")


def _explain_large(trace: str, record: LargeRecord) -> str:
    row, hint = (f"a row of topic {record.topic}", "") if record.topic else ("a row", f"; {_NAMED}")
    if sizes := _TOO_LARGE.search(trace):
        return f"{row} is {sizes[1]} bytes as a record, and at most {sizes[2]} are allowed; {_advise(int(sizes[1]))}{hint}"
    if not is_refused_by_topic(trace):
        return f"{row} is larger than the producer of the workers allows; {_RAISE}{hint}"
    limit = f", {record.limit}" if record.limit else ""
    return f"{row} is larger than max.message.bytes of its topic{limit}; raise that, or {_RAISE}{hint}"


def is_too_large(trace: str) -> bool:
    """Return whether a record was too large, for its producer or its topic."""
    return _LARGE in trace


def is_refused_by_topic(trace: str) -> bool:
    """Return whether a broker refused a record that is larger than its topic allows."""
    return _REFUSED in trace


def _advise(size: int) -> str:
    """Return what to do about a record of so many bytes."""
    if size > LARGEST_RECORD:
        return f"{_SHORTEN}: no more than {format_size(LARGEST_RECORD)} are possible"
    return f"set spec.maxRecordSize to {-(-size // 2**20)}Mi or more, or {_SHORTEN}"
