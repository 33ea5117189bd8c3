"""From the facts and findings of a database to the answer of the pod that checks it. Nothing here does I/O."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from kappa_crds.cdcsource_status import BinlogStatus, LogMark, SlotStatus
from kappa_crds.quantities import format_size
from kappa_operator.cdc.connector.expressions import to_expression
from kappa_operator.cdc.facts import Facts, PostgresFacts, TableName
from kappa_operator.cdc.findings import Finding, Severity, sort_findings
from kappa_operator.cdc.patterns import TablePattern, parse_patterns
from kappa_operator.cdc.rules import Request, check_database
from kappa_operator.cdc.rules.mysql import find_retention
from kappa_operator.cdc.rules.postgresql_tables import list_published
from kappa_operator.cdc.rules.signal_table import check_signal_table
from kappa_operator.cdc.shapes import MOST_BYTES as MOST_COLUMNS
from kappa_operator.cdc.shapes import Column, Shape, compute_fingerprint, pack
from kappa_operator.cdc.work import MOST_BYTES, AskedMark, DatabaseRequest, DatabaseResult, FoundProblem

_TEXT, _STATEMENT = 300, 1200
"""Characters of a finding that are kept."""
_BESIDE_ERRORS = 1500
"""Bytes of columns beside findings that keep a connector from starting."""
_BESIDE_LOG = 1500
"""Bytes of columns beside the marks of a binary log."""
_FILES = 600
"""Bytes of the files of the tables."""
_NO_KEY = "no-primary-key"


def build_request(request: DatabaseRequest) -> Request:
    """Return what the rules need to know."""
    include = (*request.include, *([request.signal_table] if request.signal_table else []))
    return Request(
        parse_patterns(include, _choose_schema(request)),
        request.publication,
        slot=request.slot,
        failover=request.failover,
        marks=tuple((each.file, each.position) for each in request.marks),
    )


def judge(facts: Facts, request: DatabaseRequest) -> DatabaseResult:
    """Return what was found."""
    facts = _leave_out(facts, parse_some(request.exclude, request), _find_signal_table(request))
    findings = sort_findings(
        _judge_signals(facts, _judge_keys(check_database(facts, build_request(request)), request), request)
    )
    errors = sum(each.severity is Severity.ERROR for each in findings)
    return fit(
        DatabaseResult(
            errors=errors,
            warnings=sum(each.severity is Severity.WARNING for each in findings),
            findings=tuple(map(_cut, findings)),
            tables=_count_tables(facts, request),
            **_describe_postgresql(facts, request),
            **_describe_log(facts, request),
            **_describe_columns(facts, request, _BESIDE_ERRORS if errors else MOST_COLUMNS),
        )
    )


def _describe_columns(facts: Facts, request: DatabaseRequest, most: int) -> dict[str, str]:
    """Return the columns that events have."""
    signals = _find_signal_table(request)
    if isinstance(facts, PostgresFacts):
        tables = [each for each in list_published(facts, build_request(request)) if each.name != signals]
        files = {str(each.name): str(each.file) for each in tables if each.file}
        shape = _hide_columns(facts.shapes, [each.name for each in tables], request.hidden)
        return {
            "columns": pack(shape, most),
            "fingerprint": compute_fingerprint(shape),
            "files": pack(files, _FILES) if request.compacted else "",
        }
    captured = [each.name for each in facts.tables if each.kind == "BASE TABLE" and each.name != signals and is_requested(each.name, request)]  # fmt: skip
    shape = _hide_columns(facts.shapes, captured, request.hidden)
    return {
        "columns": pack(shape, min(most, _BESIDE_LOG)),
        "fingerprint": compute_fingerprint(shape),
    }


def _hide_columns(
    shapes: Mapping[TableName, tuple[Column, ...]], tables: Iterable[TableName], hidden: Iterable[str]
) -> Shape:
    """Return the columns of the tables without those that a pattern leaves out."""
    patterns = [re.compile(to_expression(each), re.IGNORECASE) for each in hidden]
    return {
        str(table): tuple(
            column
            for column in shapes.get(table, ())
            if not any(each.fullmatch(f"{table}.{column[0]}") for each in patterns)
        )
        for table in tables
    }


def is_requested(table: TableName, request: DatabaseRequest) -> bool:
    """Return whether a pattern of the request matches a table of MySQL or MariaDB."""
    return any(pattern.matches(table) for pattern in build_request(request).patterns)


def parse_some(texts: Iterable[str], request: DatabaseRequest) -> tuple[TablePattern, ...]:
    """Return patterns, none for no texts."""
    return tuple(TablePattern.parse(each, _choose_schema(request)) for each in texts)


def _choose_schema(request: DatabaseRequest) -> str:
    return "public" if request.kind == "postgresql" else request.database


def _find_signal_table(request: DatabaseRequest) -> TableName | None:
    schema, dot, name = request.signal_table.partition(".")
    return TableName(schema, name) if dot else None


def _judge_signals(facts: Facts, findings: Iterable[Finding], request: DatabaseRequest) -> Iterable[Finding]:
    """Yield the findings about the signal table: one that is missing has a statement, unlike other tables."""
    name = _find_signal_table(request)
    if name is None:
        yield from findings
        return
    yield from check_signal_table(facts, name)
    yield from (each for each in findings if (each.rule, each.subject) != ("no-such-table", f"table {name}"))


def _leave_out(facts: Facts, exclude: tuple[TablePattern, ...], signals: TableName | None) -> Facts:
    def is_kept(name: TableName) -> bool:
        return name == signals or not any(pattern.matches(name) for pattern in exclude)

    if isinstance(facts, PostgresFacts):
        return replace(facts, tables=tuple(each for each in facts.tables if is_kept(each.name)))
    return replace(facts, tables=tuple(each for each in facts.tables if is_kept(each.name)))


def _judge_keys(findings: Iterable[Finding], request: DatabaseRequest) -> Iterable[Finding]:
    """A table without a key is an error where its topic is compacted: Kafka refuses records without a key there."""
    keyed = parse_some(request.keyed, request)
    for each in findings:
        if each.rule != _NO_KEY:
            yield each
            continue
        schema, _, name = each.subject.removeprefix("table ").partition(".")
        if any(pattern.matches(TableName(schema, name)) for pattern in keyed):
            continue
        advice = "Add a primary key, set spec.keys for the table, exclude it, or set spec.topics.cleanup to delete."
        severity = Severity.ERROR if request.compacted else Severity.WARNING
        yield replace(each, severity=severity, message=f"{each.message} {advice}")


def _count_tables(facts: Facts, request: DatabaseRequest) -> int:
    signals = _find_signal_table(request)
    if isinstance(facts, PostgresFacts):
        return sum(each.name != signals for each in list_published(facts, build_request(request)))
    return sum(each.name != signals and is_requested(each.name, request) for each in facts.tables)


def _describe_postgresql(facts: Facts, request: DatabaseRequest) -> dict[str, object]:
    if not isinstance(facts, PostgresFacts):
        return {}
    publication = facts.publication
    owns = not request.is_publication_given and (publication is None or publication.owned)
    identity = {"system": facts.system, "timeline": facts.timeline}
    found = next((each for each in facts.slots if each.name == request.slot), None)
    slot = found and SlotStatus(
        name=found.name,
        confirmed=found.confirmed,
        retained_bytes=found.retained_bytes,
        safe_bytes=found.safe_bytes,
        retained=None if found.retained_bytes is None else format_size(found.retained_bytes),
        wal_status=found.wal_status,
        failover=found.failover,
        **identity,
    )
    return {"owns_publication": owns, "slot": slot, **identity}


def _describe_log(facts: Facts, request: DatabaseRequest) -> dict[str, object]:
    if isinstance(facts, PostgresFacts) or facts.log is None:
        return {}
    log, retention = facts.log, find_retention(facts)
    binlog = BinlogStatus(
        server=log.server,
        oldest=log.oldest,
        end=LogMark(file=log.file, position=log.position, gtids=log.gtids),
        retained_bytes=log.size,
        retained=format_size(log.size),
        retention_seconds=None if retention is None else round(retention),
    )
    asked = (
        AskedMark(
            mark=LogMark(file=mark.file, position=mark.position, gtids=mark.gtids),
            is_exact=mark.is_exact,
            gtids=gtids,
        )
        for mark, gtids in zip(request.marks, log.marks, strict=True)
    )
    return {"binlog": binlog, "asked": tuple(asked)}


def _cut(finding: Finding) -> FoundProblem:
    """Return a finding that fits. A statement is whole or left out: half of one is wrong."""
    statement = " ".join(finding.statements) or "; ".join(finding.configuration)
    return FoundProblem(
        severity=finding.severity,
        rule=finding.rule,
        subject=finding.subject[:_TEXT],
        message=f"{finding.message} {finding.why}"[:_TEXT],
        statement=statement if len(statement) <= _STATEMENT else "",
    )


def fit(result: DatabaseResult) -> DatabaseResult:
    """Return the answer with as many findings as the termination message has room for."""
    while len(result.model_dump_json(exclude_none=True).encode()) > MOST_BYTES and result.findings:
        result = result.replace(findings=result.findings[:-1])
    return result
