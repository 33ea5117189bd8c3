"""`kappa reprocess watch`: the phases of a reprocessing as they follow each other, with the time left in each partition."""

import asyncio
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kappa_crds.quantities import format_count, format_duration
from kappa_crds.reprocessing import ENDS, CatchUp, MemberStatus, ReprocessingPhase, ReprocessingStatus
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.options import Context, Namespace
from kappa_operator.cli.output import open_console
from kappa_operator.cli.reprocess_requests import describe_status, find_reprocessing
from kappa_operator.cli.requests import call, choose_namespace
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.reprocessing.objects import ReprocessingResource

_INTERVAL_SECONDS = 2.0
_MOST_PARTITIONS = 20


def watch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The Reprocessing, or the Pipeline for its newest one.")
    ],
    *,
    once: Annotated[bool, typer.Option("--once", help="Show it once.")] = False,
    namespace: Namespace = "",
    context: Context = None,
) -> None:
    """Watch a reprocessing until its end. Exit code 0: the new version is active; 3: it is not."""
    scope = choose_namespace(namespace, context)
    found = call(context, lambda api: _follow(api, scope, name, once=once))
    if not once and found.status.phase is not ReprocessingPhase.DONE:
        raise CommandError(describe_status(found), Exit.UNHEALTHY)


async def _follow(api: ApiCluster, namespace: str, name: str, *, once: bool) -> ReprocessingResource:
    console = open_console()
    found = await find_reprocessing(api, namespace, name)
    if once or not console.is_terminal:
        return await _print_lines(api, found, once=once)
    with Live(build_watch(found), console=console, auto_refresh=False) as live:
        while found.status.phase not in ENDS:
            await asyncio.sleep(_INTERVAL_SECONDS)
            found = await find_reprocessing(api, namespace, found.metadata.name)
            live.update(build_watch(found), refresh=True)
    return found


async def _print_lines(api: ApiCluster, found: ReprocessingResource, *, once: bool) -> ReprocessingResource:
    """Print each change as a line, where there is no terminal."""
    console, shown = open_console(), ""
    while True:
        line = describe_status(found)
        if once:
            console.print(build_watch(found))
        elif line != shown:
            console.print(line)
        shown = line
        if once or found.status.phase in ENDS:
            return found
        await asyncio.sleep(_INTERVAL_SECONDS)
        found = await find_reprocessing(api, found.metadata.namespace, found.metadata.name)


def build_watch(found: ReprocessingResource) -> RenderableType:
    """Return a reprocessing for people: its phase, what it waits for, and the partitions that are furthest behind."""
    status = found.status
    head = Text.assemble((f"{found.metadata.name}  ", "bold"), describe_status(found))
    rows = [found.spec.rows] if found.spec.rows else []
    parts: list[RenderableType] = [head, *map(Text, [*rows, *_list_lines(status)])]
    measured = status.catch_up
    if status.phase is ReprocessingPhase.CATCHING_UP and measured is not None and measured.partitions:
        parts.append(_build_partitions(status))
    return Group(*parts)


def _list_lines(status: ReprocessingStatus) -> list[str]:
    lines = [f"missing: {gap.topic}/{gap.partition}: {gap.message}" for gap in status.gaps]
    lines += [f"not held: {each}" for each in status.unheld]
    measured = status.catch_up
    if measured is not None and status.phase is ReprocessingPhase.CATCHING_UP:
        rate = (
            ""
            if measured.records_per_second is None
            else f", {format_count(measured.records_per_second)} records/s"
        )
        lines.append(
            f"lag {format_count(measured.lag)} records{rate}, time left: {measured.eta or 'unknown'}"
        )
        lines += [_describe_executors(measured)] if measured.wanted_executors else []
    lines += [_describe_member(status, each) for each in status.members]
    if status.comparison is not None and status.comparison.message:
        lines.append(f"comparison: {status.comparison.message}")
    return lines


def _describe_member(status: ReprocessingStatus, member: MemberStatus) -> str:
    """Return how far a Pipeline is that is reprocessed with the first one."""
    head, measured = f"with Pipeline {member.pipeline_ref}", member.catch_up
    if status.phase is not ReprocessingPhase.CATCHING_UP:
        return head
    if measured is None:
        state = "takes part" if member.joined else "does not take part yet"
        return f"{head}: {state}; reads from {', '.join(member.after)}"
    left = "caught up" if member.caught_up_since else f"time left: {measured.eta or 'unknown'}"
    executors = f", {_describe_executors(measured)}" if measured.wanted_executors else ""
    return f"{head}: lag {format_count(measured.lag)} records, {left}{executors}"


def _describe_executors(measured: CatchUp) -> str:
    return f"executors: {measured.executors} of {measured.wanted_executors}"


def _build_partitions(status: ReprocessingStatus) -> Table:
    table = Table("TOPIC", "PARTITION", "OFFSET", "END", "TIME LEFT", box=None)
    for each in (status.catch_up.partitions if status.catch_up else ())[:_MOST_PARTITIONS]:
        left = "unknown" if each.eta_seconds is None else format_duration(max(0, each.eta_seconds))
        table.add_row(each.topic, str(each.partition), str(each.offset), str(each.end), left)
    return table
