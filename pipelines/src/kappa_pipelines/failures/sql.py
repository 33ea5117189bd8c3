"""The errors of Spark for a refused statement, as a reason, a place and the alternative."""

import re

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_crds.view import View
from kappa_pipelines.errors import SpecError
from kappa_pipelines.failures.classify import first_lines
from kappa_pipelines.failures.exceptions import Failure, SqlFailure
from kappa_pipelines.failures.unsupported import WINDOW_IN_JOIN, find_way
from kappa_pipelines.revision.names import explain_unknown_name


def find_unknown_name(failure: SqlFailure) -> str | None:
    """Return the unknown table or view that a statement names, or None for another failure."""
    if not failure.condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return None
    return failure.parameters.get("relationName", "").replace("`", "")


def explain_sql_error(
    spec: PipelineSpec, view: View, failure: SqlFailure, *, exact: bool = True
) -> SpecError:
    """Return the error for a view's SQL that Spark rejected. Unless it is `exact`, only the line of the position is right."""
    unknown = find_unknown_name(failure)
    if unknown is not None:
        return explain_unknown_name(spec, view.name, unknown)
    if _is_unresolved_elsewhere(failure) and "window(" in (view.sql or "").lower():
        return SpecError(Reason.UNSUPPORTED_QUERY, f"view {view.name!r}: {WINDOW_IN_JOIN}")
    return explain_refusal(f"view {view.name!r}{_position(view, failure, exact=exact)}", failure)


def _is_unresolved_elsewhere(failure: SqlFailure) -> bool:
    """Return whether the message of Spark does not name the cause: it misses a column and proposes the same, or fails internally."""
    name, proposal = (failure.parameters.get(key, "") for key in ("objectName", "proposal"))
    return failure.condition == "INTERNAL_ERROR" or bool(name and name in proposal.split(", "))


def explain_refusal(where: str, failure: SqlFailure) -> SpecError:
    """Return the error for SQL that Spark refused; `where` names the place."""
    condition, parameters = failure.condition, failure.parameters
    way = find_way(failure.message)
    if way is not None:
        return SpecError(Reason.UNSUPPORTED_QUERY, f"{where}: {way}")
    if condition.startswith(("UNRESOLVED_COLUMN", "FIELD_NOT_FOUND", "UNRESOLVED_FIELD")):
        return SpecError(Reason.UNKNOWN_COLUMN, f"{where}: {_unknown_column(parameters)}")
    if condition.startswith(("UNSUPPORTED", "STREAMING_")):
        return SpecError(Reason.UNSUPPORTED_QUERY, f"{where}: {_sentence(failure.message)}")
    return SpecError(Reason.INVALID_SQL, f"{where}: {_sentence(failure.message)}")


def refuse_stream(failure: Failure, where: str) -> SpecError:
    """Return the error for a query that Spark does not support as a stream; `where` names the view or sink."""
    message = failure.root.message
    way = find_way(message) or f"Spark cannot run this as a stream: {_sentence(message)}"
    return SpecError(Reason.UNSUPPORTED_QUERY, f"{where}: {way}")


def _unknown_column(parameters: dict[str, str]) -> str:
    name = (parameters.get("objectName") or parameters.get("fieldName") or "?").replace("`", "")
    proposal = (parameters.get("proposal") or parameters.get("fields") or "").replace("`", "")
    return f"there is no column {name!r}" + (f"; did you mean one of {proposal}?" if proposal else "")


def _position(view: View, failure: SqlFailure, *, exact: bool) -> str:
    line, column = failure.line, failure.column
    if view.sql is None:  # the position would be in a generated statement
        return ""
    if line is None and failure.start is not None:
        before = view.sql.strip()[: failure.start]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    if line is None:
        return ""
    return f", line {line}, column {column}" if exact else f", line {line}"


def _sentence(message: str) -> str:
    text = first_lines(message)
    return re.sub(r"\s*SQLSTATE: \w+", "", re.sub(r"^\[[A-Z_.]+\]\s*", "", text)).strip()
