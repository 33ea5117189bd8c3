"""`kappa cdc snapshot` and `kappa cdc offsets`: requests to a CDCSource that runs."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from kappa_operator.cdcsource.objects import CDCSourceResource
from kappa_operator.cli.cdc_requests import (
    build_offsets,
    build_snapshot,
    judge_offsets,
    judge_snapshot,
    rehearse,
    send_offsets,
    send_snapshot,
    stop_snapshot,
)
from kappa_operator.cli.cdc_view import make_printable
from kappa_operator.cli.errors import CommandError, Exit
from kappa_operator.cli.options import Context, Namespace, OutputFormat, parse_duration_option
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.requests import Request, call, choose_namespace, waiting
from kappa_operator.cli.savepoint_requests import read_resource
from kappa_operator.cli.wait import wait_for
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import Key

Source = Annotated[str, typer.Argument(metavar="SOURCE", help="The CDCSource.")]


@waiting
def snapshot(
    source: Source,
    *,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="SCHEMA.TABLE", help="A table whose rows are read again; repeat it."),
    ] = None,
    where: Annotated[
        str,
        typer.Option(metavar="CONDITION", help="Only these rows of each table, such as: id >= 100 AND state = 'open'."),
    ] = "",
    stop: Annotated[bool, typer.Option("--stop", help="Stop the present snapshot instead.")] = False,
    namespace: Namespace = "",
) -> Request:  # fmt: skip
    """Read the rows of some tables again while changes are read (incremental snapshot).

    The source needs spec.signalTable. --wait shows rows and remaining time.
    """
    key = Key("CDCSource", namespace, source)
    if stop:
        if table or where:
            raise CommandError("--stop takes neither --table nor --where", Exit.USAGE)
        return Request(
            lambda api: stop_snapshot(api, key), "stop of the snapshot of {name} requested", judge_snapshot
        )
    if not table:
        raise CommandError("name a table: --table SCHEMA.TABLE", Exit.USAGE)
    wanted = build_snapshot(_now(), table, where)
    return Request(
        lambda api: send_snapshot(api, key, wanted), "snapshot of tables of {name} requested", judge_snapshot
    )


def offsets(
    source: Source,
    *,
    lsn: Annotated[
        str,
        typer.Option("--set", metavar="LSN", help="Continue at this position; changes before it are not read."),
    ] = "",
    reset: Annotated[
        bool, typer.Option("--reset", help="Forget the position: the next start is the first one, with a snapshot.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what a change would mean, and change nothing.")] = False,
    timeout: Annotated[str, typer.Option(metavar="DURATION", help="How long to wait for the operator.")] = "1m",
    namespace: Namespace = "",
    output: OutputFormat = Output.TABLE,
    context: Context = None,
) -> None:  # fmt: skip
    """Show the position of a connector in the log of its database, or change it while the connector is stopped.

    The operator reads and changes it, as it alone reaches Kafka Connect.
    """
    wanted, seconds = build_offsets(_now(), lsn, reset=reset), parse_duration_option(timeout, "--timeout")
    key = Key("CDCSource", choose_namespace(namespace, context), source)
    if dry_run and not (lsn or reset):
        raise CommandError("--dry-run needs --set or --reset", Exit.USAGE)
    sent = wanted.replace(set=None, reset=False) if dry_run else wanted

    async def ask(api: ApiCluster) -> CDCSourceResource:
        await send_offsets(api, key, sent)
        await wait_for(
            api, key, judge_offsets(sent.request), seconds, lambda text: typer.echo(text, err=True)
        )
        found: CDCSourceResource = await read_resource(api, key)
        return found

    found = call(context, ask)
    text, is_refused = rehearse(found, wanted) if dry_run else ("", False)
    _print(found, text, output)
    if is_refused:
        raise typer.Exit(Exit.FAILED)


def _print(found: CDCSourceResource, rehearsed: str, output: Output) -> None:
    answer = found.status.offsets
    position = {} if answer is None else answer.position
    message = rehearsed or ("" if answer is None else answer.message)
    width = max(map(len, position), default=0)
    lines = [make_printable(f"{name:<{width}}  {value}") for name, value in position.items()]
    print_result(
        output,
        lambda: "\n".join([*(lines or ["no position"]), *([message] if message != "reported" else [])]),
        lambda: {"source": found.metadata.name, "position": position, "message": message},
        lambda: [name_resource("CDCSource", found.metadata.name)],
    )


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
