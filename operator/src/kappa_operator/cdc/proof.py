"""From what was compared to the answer of the pod. Nothing here does I/O.

The answer is the termination message of a container, of which Kubernetes keeps 4096 bytes, and it becomes a part of the status. So it has
counts, and of rows only the first keys that differ: no value of a column that is not in the key.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kappa_crds.cdcsource_proof import ProofResult, TableFinding
from kappa_operator.cdc.facts import TableName
from kappa_operator.cdc.patterns import TablePattern
from kappa_operator.cdc.proof_work import ProofRequest
from kappa_operator.cdc.reconcile.model import Difference, Proof, Request

MOST_BYTES = 3500
"""Bytes of an answer."""
LISTED = 3
"""Rows that are named for each table."""
_TEXT, _PART = 300, 64
_SCHEMA = "public"
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class Compared:
    """A table after its comparison: the proof, or why there is none."""

    table: TableName
    proof: Proof | None = None
    problem: str = ""


def name_topic(prefix: str, table: TableName) -> str:
    """Return the topic of a table, as Debezium names it: what Kafka does not allow is replaced."""
    return _ILLEGAL.sub("_", f"{prefix}.{table.schema}.{table.name}")


def build_request(request: ProofRequest, table: TableName) -> Request:
    """Return what is to be compared of a table."""
    return Request(
        table=table,
        topic=name_topic(request.prefix, table),
        key=_find_key(request, table),
        omitted=request.altered,
        decimals=request.decimals,
        offsets=request.offsets,
        slot=request.slot,
        wait=request.wait,
        listed=LISTED,
    )


def _find_key(request: ProofRequest, table: TableName) -> tuple[str, ...]:
    for key in request.keys:
        if TablePattern.parse(key.table, _SCHEMA).matches(table):
            return key.columns
    return ()


def parse_patterns(texts: Iterable[str]) -> tuple[TablePattern, ...]:
    """Return patterns of tables, none for no texts."""
    return tuple(TablePattern.parse(each, _SCHEMA) for each in texts)


def choose_tables(published: Iterable[TableName], request: ProofRequest) -> tuple[TableName, ...]:
    """Return the tables to compare, sorted."""
    only, exclude = parse_patterns(request.only or ("*.*",)), parse_patterns(request.exclude)

    def is_chosen(table: TableName) -> bool:
        return any(each.matches(table) for each in only) and not any(each.matches(table) for each in exclude)

    return tuple(sorted(filter(is_chosen, published)))


def summarize(compared: Sequence[Compared], seconds: float) -> ProofResult:
    """Return the answer, with as many findings as it has room for. Where nothing could be compared, its problem is the first cause."""
    proofs = [each.proof for each in compared if each.proof is not None]
    if not proofs:
        return ProofResult(
            tables=len(compared), seconds=round(seconds, 1), problem=compared[0].problem[:_TEXT]
        )
    first = proofs[0]  # tables are compared one after another, so it has the lowest position
    findings = [_describe(each) for each in compared]
    known = sorted(
        (each for each in findings if each is not None), key=lambda each: (-each.differing, each.table)
    )
    return fit(
        ProofResult(
            tables=len(compared),
            equal=sum(each is None for each in findings),
            rows=sum(each.rows for each in proofs),
            differing=sum(each.differing for each in known),
            undecided=sum(each.undecided for each in known),
            position=first.position,
            at=datetime.fromisoformat(first.at),
            seconds=round(seconds, 1),
            findings=tuple(known),
        )
    )


def _describe(compared: Compared) -> TableFinding | None:
    """Return what is not equal about a table, None where everything is."""
    table, proof = _clean(str(compared.table)), compared.proof
    if proof is None:
        return TableFinding(table=table, message=compared.problem[:_TEXT])
    differing = sum(proof.counts.values())
    if not differing and not proof.undecided_count:
        return None
    return TableFinding(
        table=table,
        differing=differing,
        undecided=proof.undecided_count,
        first=tuple(map(_describe_row, proof.differences[:LISTED])),
        message=_choose_notes(proof) if proof.undecided_count else "",
    )


def _choose_notes(proof: Proof) -> str:
    """Return the notes without those about columns that are not compared, which explain no row."""
    return "; ".join(each for each in proof.notes if "is not compared" not in each)[:_TEXT]


def _describe_row(difference: Difference) -> str:
    key = ", ".join(_clean(part[:_PART]) for part in difference.key)
    columns = f": {', '.join(map(_clean, difference.columns))}" if difference.columns else ""
    return f"{difference.kind.value} ({key}){columns}"[:_TEXT]


def _clean(text: str) -> str:
    """Return a text of the database without what could steer a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def fit(result: ProofResult) -> ProofResult:
    """Return the answer with as many findings as the termination message has room for, the first ones first."""
    while len(result.model_dump_json(exclude_none=True).encode()) > MOST_BYTES and result.findings:
        result = result.replace(findings=result.findings[:-1])
    return result
