"""What `kappa cdc snapshot` and `kappa cdc offsets` request of the API server: changes of a CDCSource that kubectl could make as well."""

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import ValidationError

from kappa_crds.cdcsource_requests import IncrementalSnapshot, OffsetsRequest, Position, RowCondition
from kappa_crds.cdcsource_status import ACTIVE_SNAPSHOTS, IncrementalState
from kappa_crds.resource import Resource
from kappa_operator.cdc.guard import parse_lsn
from kappa_operator.cdc.signals import SYMBOLS
from kappa_operator.cdcsource.objects import CDCSourceResource
from kappa_operator.cdcsource.offsets import describe_change, explain_refusal
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.savepoint_requests import read_resource, refer
from kappa_operator.cli.wait import Judge, Outcome
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import Key

Built = TypeVar("Built")
_TERM = re.compile(
    r"""\s*(?P<column>"(?:[^"]|"")+"|[\w$#-]+)\s*(?P<operator><=|>=|<>|!=|=|<|>)\s*(?P<value>'(?:[^']|'')*'|[^\s']+)\s*(?P<end>and\b|$)""",
    re.IGNORECASE,
)
_COMPARISONS = {symbol: comparison for comparison, symbol in SYMBOLS.items()}
_HELP = "write comparisons of a column with a value, joined by AND, such as: id >= 100 AND state = 'open'"


def parse_conditions(text: str) -> tuple[RowCondition, ...]:
    """Return the comparisons of a condition; CommandError for any other SQL, which is not sent to a database."""
    found: list[RowCondition] = []
    position, is_complete = 0, not text.strip()
    while not is_complete:
        term = _TERM.match(text, position)
        if term is None:
            raise CommandError(f"--where {text!r} cannot be used: {_HELP}", Exit.USAGE)
        position, is_complete = term.end(), not term["end"]
        found.append(_build_condition(term))
    return tuple(found)


def _build_condition(term: re.Match[str]) -> RowCondition:
    column, value = term["column"], term["value"]
    if column.startswith('"'):
        column = column[1:-1].replace('""', '"')
    if value.startswith("'"):
        value = value[1:-1].replace("''", "'")
    operator = _COMPARISONS[term["operator"].replace("!=", "<>")]
    return _check(lambda: RowCondition.model_validate({"column": column, "operator": operator, "value": value}))  # fmt: skip


def build_snapshot(request: str, tables: Iterable[str], where: str) -> IncrementalSnapshot:
    """Return the request of a snapshot; CommandError."""
    conditions = [each.to_manifest() for each in parse_conditions(where)]
    wanted = [{"table": table, "where": conditions} for table in tables]
    return _check(lambda: IncrementalSnapshot.model_validate({"request": request, "tables": wanted}))


def build_offsets(request: str, lsn: str, *, reset: bool) -> OffsetsRequest:
    """Return a request about the position; CommandError."""
    if lsn and reset:
        raise CommandError("--set and --reset exclude each other", Exit.USAGE)
    if lsn and re.fullmatch("[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}", lsn) is None:
        raise CommandError("--set takes an LSN as PostgreSQL has it, such as 16/B374D848", Exit.USAGE)
    return OffsetsRequest(request=request, set=Position(lsn=lsn) if lsn else None, reset=reset)


def _check(build: Callable[[], Built]) -> Built:
    try:
        return build()
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CommandError(f"{place}: {first['msg']}", Exit.USAGE) from None


async def send_snapshot(api: ApiCluster, key: Key, wanted: IncrementalSnapshot) -> Key:
    """Request a snapshot; return the source."""
    await read_resource(api, key)
    await api.merge(
        refer(key), {"spec": {"snapshot": {"incremental": {"stop": None, **wanted.to_manifest()}}}}
    )
    return key


async def stop_snapshot(api: ApiCluster, key: Key) -> Key:
    """Request that the present snapshot stops; CommandError where there is none."""
    found: CDCSourceResource = await read_resource(api, key)
    known, wanted = found.status.incremental, found.spec.snapshot.incremental
    is_open = known is not None and known.state in (*ACTIVE_SNAPSHOTS, IncrementalState.WAITING)
    if wanted is None or (known is not None and known.request == wanted.request and not is_open):
        raise CommandError(f"CDCSource {key.name} has no incremental snapshot to stop")
    await api.merge(refer(key), {"spec": {"snapshot": {"incremental": {"stop": True}}}})
    return key


def judge_snapshot(resource: Resource[Any, Any]) -> Outcome:
    """Return the progress of the snapshot that the spec requests."""
    wanted, known = resource.spec.snapshot.incremental, resource.status.incremental
    if wanted is None:
        return Outcome("the request was removed from the spec", failed=True)
    if known is None or known.request != wanted.request:
        if known is not None and known.state in ACTIVE_SNAPSHOTS:
            return Outcome(f"waiting for the end of another snapshot: {known.message}")
        return Outcome("waiting for the operator")
    done = known.state in (IncrementalState.DONE, IncrementalState.STOPPED)
    failed = known.state in (IncrementalState.FAILED, IncrementalState.SUPERSEDED)
    text = f"waiting: {known.message}" if known.state is IncrementalState.WAITING else known.message
    return Outcome(text, done=done, failed=failed)


async def send_offsets(api: ApiCluster, key: Key, wanted: OffsetsRequest) -> Key:
    """Request a report or a change of the position; return the source."""
    await read_resource(api, key)
    blank = {"set": None, "reset": None}
    await api.merge(refer(key), {"spec": {"offsets": {**blank, **wanted.to_manifest()}}})
    return key


def judge_offsets(request: str) -> Judge:
    """Return what reports whether a request about the position was answered."""

    def judge(resource: Resource[Any, Any]) -> Outcome:
        answer = resource.status.offsets
        if answer is None or answer.request != request:
            return Outcome("waiting for the operator")
        return Outcome(answer.message, done=not answer.refused, failed=answer.refused)

    return judge


def rehearse(resource: CDCSourceResource, wanted: OffsetsRequest) -> tuple[str, bool]:
    """Return what a change would do, or why it would be refused, and which of them."""
    refusal = explain_refusal(resource, wanted)
    if refusal is not None:
        return f"it would be refused: {refusal}", True
    answer = resource.status.offsets
    shown = answer.position if answer is not None else {}
    known = [parse_lsn(value) for name, value in shown.items() if name.startswith("lsn") and "/" in value]
    return describe_change(resource, wanted, max(known, default=None)), False
