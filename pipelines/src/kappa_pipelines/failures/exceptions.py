"""Converts exceptions of Spark, from Python or the JVM, to plain data for `classify`."""

import re
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

_LONGEST_CHAIN = 12
_TRACE = "Traceback (most recent call last):\n"
_RAISED = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(: (?P<message>.*))?$", re.MULTILINE | re.DOTALL)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]*)\] ")
_PARSE_POSITION = re.compile(r"\(line (\d+), pos (\d+)\)")


@dataclass(frozen=True)
class Cause:
    """One exception of a chain: its class, Spark's error condition and parameters where it has them."""

    kind: str
    message: str
    condition: str | None = None
    parameters: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Failure:
    """A chain of exceptions, the outermost first."""

    causes: tuple[Cause, ...]

    @property
    def root(self) -> Cause:
        """Return the innermost exception."""
        return self.causes[-1]


@dataclass(frozen=True)
class SqlFailure:
    """An error of Spark's parser or analyser in one statement. `line` and `column` count from 1."""

    condition: str
    message: str
    parameters: dict[str, str]
    line: int | None = None
    column: int | None = None
    start: int | None = None


def read_sql_failure(error: PySparkException | Py4JJavaError) -> SqlFailure:
    """Return the failure of a statement that Spark rejects, or that its analyser fails on."""
    if isinstance(error, Py4JJavaError):
        cause = read_failure(error).root
        return SqlFailure(cause.condition or "", cause.message, cause.parameters)
    text = _clean(str(error))
    position = _PARSE_POSITION.search(text)
    return SqlFailure(
        condition=error.getCondition() or "",
        message=text,
        parameters=dict(error.getMessageParameters() or {}),
        line=int(position[1]) if position else None,
        column=int(position[2]) + 1 if position else None,
        start=_start_index(error),
    )


def _start_index(error: PySparkException) -> int | None:
    try:
        contexts = error.getQueryContext()
        return int(contexts[0].startIndex()) if contexts else None
    except Exception:  # some errors have a context that is not SQL
        return None


def _clean(text: str) -> str:
    return text.split("JVM stacktrace:", maxsplit=1)[0].strip()


def read_failure(error: BaseException) -> Failure:
    """Return the chain of an exception in Python, or that of the JVM if there is one."""
    origin = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    if origin is not None:
        return read_java_failure(origin)
    return Failure((Cause(type(error).__name__, _clean(str(error))),))


def read_query_failure(query: StreamingQuery) -> Failure | None:
    """Return the failure of a query, or None if it was stopped or still runs."""
    found = query._jsq.exception()
    return read_java_failure(found.get()) if found.isDefined() else None


def read_java_failure(throwable: Any) -> Failure:
    """Return the chain of a JVM throwable."""
    causes: list[Cause] = []
    while throwable is not None and len(causes) < _LONGEST_CHAIN:
        causes.append(_read_cause(throwable))
        throwable = throwable.getCause()
    in_python = read_stack_trace(causes[-1].message) if causes else None
    return Failure((*causes, in_python) if in_python is not None else tuple(causes))


def read_stack_trace(message: str) -> Cause | None:
    """Return the exception at the end of a stack trace of Python in a message of the JVM; None if there is none.

    Such a trace is all that the JVM has of an exception in a function that it calls, so Spark's error condition is in its text.
    """
    _, mark, trace = message.rpartition(_TRACE)
    found = _RAISED.search(trace) if mark else None
    if found is None:
        return None
    condition = _CONDITION.match(found["message"] or "")
    return Cause(found["kind"], (found["message"] or "").strip(), condition[1] if condition else None)


def _read_cause(throwable: Any) -> Cause:
    kind = throwable.getClass().getName()
    message = throwable.getMessage() or ""
    try:
        condition = throwable.getCondition()
        parameters = dict(throwable.getMessageParameters() or {})
    except Exception:  # most exceptions do not belong to Spark
        return Cause(kind, message)
    return Cause(kind, message, condition, {str(k): str(v) for k, v in parameters.items()})
