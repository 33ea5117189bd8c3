"""`kappa cdc status`: one CDCSource on one screen: its connector, its slot, its last incremental snapshot, and the proofs of its tables."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kappa_crds.cdcsource import CDC_SOURCE
from kappa_crds.cdcsource_proof import ProofRecord
from kappa_crds.cdcsource_status import CDCSourceStatus, IncrementalStatus
from kappa_crds.conditions import ConditionType
from kappa_crds.quantities import format_size
from kappa_operator.cdcsource.objects import CDCSourceResource
from kappa_operator.cli.cdc_view import make_printable
from kappa_operator.cli.errors import Exit
from kappa_operator.cli.figures import render_age, render_count, render_seconds
from kappa_operator.cli.health import assess
from kappa_operator.cli.options import Context, Namespace, OutputFormat
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.requests import call, choose_namespace
from kappa_operator.cli.savepoint_requests import read_resource
from kappa_operator.engine.keys import Key

if TYPE_CHECKING:  # the help must not load it
    from rich.table import Table

_SHOWN = (ConditionType.READY, *CDC_SOURCE.conditions)


def status(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The CDCSource.")],
    *,
    namespace: Namespace = "",
    output: OutputFormat = Output.TABLE,
    context: Context = None,
) -> None:
    """Show a CDCSource: its connector, the log that the database retains for it, and the proofs of its tables.

    Exit code 3 if it is unhealthy: not ready, not proven, or its slot fills.
    """
    key = Key("CDCSource", choose_namespace(namespace, context), source)
    resource: CDCSourceResource = call(context, lambda api: read_resource(api, key))
    now = datetime.now(UTC)
    print_result(
        output,
        lambda: build_status_view(resource, now),
        lambda: {"name": source, "namespace": key.namespace, "status": resource.status.to_manifest()},
        lambda: (name_resource(key.kind, key.name),),
    )
    raise typer.Exit(Exit.OK if is_healthy(resource) else Exit.UNHEALTHY)


def is_healthy(resource: CDCSourceResource) -> bool:
    """Return whether the source is healthy, as `kappa status` judges it."""
    return assess(resource.model_dump(mode="json", by_alias=True, exclude_none=True)).healthy


def build_status_view(resource: CDCSourceResource, now: datetime) -> "Table":
    """Return one line for each property. Names and keys of a database cannot steer the terminal."""
    from rich.table import Table  # noqa: PLC0415 - see above
    from rich.text import Text  # noqa: PLC0415 - see above

    table = Table(box=None, show_header=False, pad_edge=False)
    for name, text in _list_lines(resource, now):
        table.add_row(name, Text(make_printable(text)))
    return table


def _list_lines(resource: CDCSourceResource, now: datetime) -> Iterator[tuple[str, str]]:
    found = resource.status
    yield "name", resource.metadata.name
    yield "database", found.database or "-"
    yield "state", found.state or "-"
    yield "tables", render_count(found.tables)
    yield "checked", f"{render_age(found.last_check, now)} ago"
    yield from _list_slot(found)
    if found.incremental is not None:
        yield "snapshot", _describe_snapshot(found.incremental)
    yield from _list_proofs(found, now)
    conditions = {each.type: each for each in found.conditions}
    for kind in _SHOWN:
        if kind in conditions:
            condition = conditions[kind]
            yield str(kind), f"{condition.status}, {condition.reason}: {condition.message}"


def _list_slot(found: CDCSourceStatus) -> Iterator[tuple[str, str]]:
    if found.slot is None:
        return
    yield "slot", found.slot.name
    yield "retained log", found.slot.retained or "?"
    log = found.log
    if log is not None and log.remaining_bytes is not None:
        rate = "" if not log.bytes_per_second else f", grows by {format_size(log.bytes_per_second)}/s"
        left = "" if log.seconds_left is None else f", {render_seconds(log.seconds_left)} left"
        yield "limit", f"{format_size(max(0, log.remaining_bytes))} below {log.limit}{rate}{left}"


def _list_proofs(found: CDCSourceStatus, now: datetime) -> Iterator[tuple[str, str]]:
    proof = found.proof
    if proof is None:
        return
    yield "proven", "never" if proof.proven is None else f"{render_age(proof.proven, now)} ago"
    for each in proof.history:
        yield "proof", f"{each.ended:%Y-%m-%d %H:%M:%S}: {_describe(each)}"
    if proof.last is not None:
        for finding in proof.last.findings:
            rows = f"; {', '.join(finding.first)}" if finding.first else ""
            why = f"; {finding.message}" if finding.message else ""
            yield (
                "",
                f"{finding.table}: {finding.differing:,} differ, {finding.undecided:,} undecided{rows}{why}",
            )


def _describe_snapshot(found: IncrementalStatus) -> str:
    """Return the state of an incremental snapshot, and its message, which has rows and time left while it runs."""
    return f"{found.state}: {found.message}" if found.message else str(found.state)


def _describe(proof: ProofRecord) -> str:
    if proof.problem:
        return proof.problem
    counts = f"{proof.equal} of {proof.tables} tables equal, {proof.rows:,} rows"
    wrong = f", {proof.differing:,} differ, {proof.undecided:,} undecided" if not proof.is_equal else ""
    return f"{counts}{wrong}, {render_seconds(proof.seconds)}"
