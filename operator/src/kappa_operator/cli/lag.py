"""`kappa lag`: how far behind groups and pipelines are, in records and in time."""

import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import typer

from kappa_crds.quantities import parse_duration
from kappa_operator.cli.asking import Context, call
from kappa_operator.cli.lag_bound import Bound, check_bound
from kappa_operator.cli.lag_view import build_lag_view, narrow
from kappa_operator.cli.reports import Scope, read_report
from kappa_operator.cli.screen import Output, open_console, print_plain, write_data
from kappa_operator.report.model import Report, Source

Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Namespace.")]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="All namespaces.")]
OperatorNamespace = Annotated[
    str, typer.Option(envvar="KAPPA_OPERATOR_NAMESPACE", help="Namespace that the operator runs in.")
]
_CLEAR = "\x1b[H\x1b[2J"


def lag(
    *,
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    group: Annotated[
        list[str] | None, typer.Option(help="Only groups that match, such as billing or kappa.shop.*.")
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only topics that match.")] = None,
    partitions: Annotated[bool, typer.Option("--partitions", help="Show each partition.")] = False,
    output: Annotated[Output, typer.Option("-o", "--output", help="What to print.")] = Output.TABLE,
    fail_over: Annotated[
        str | None,
        typer.Option(
            help="End with 3 where lag is over this, such as 60s or 1000 records, with 4 where it is not known."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again and again until Ctrl-C.")
    ] = False,
    every: Annotated[str, typer.Option(help="How often, with --watch.")] = "5s",
    operator_namespace: OperatorNamespace = "kappa-system",
    context: Context = None,
) -> None:
    """Show how far behind consumer groups and pipelines are: in records, in time, and until records are lost."""
    if watch and fail_over is not None:
        raise typer.BadParameter("says it once; leave out --watch", param_hint="--fail-over")
    bound = _parse(fail_over)
    pause = parse_interval(every)
    scope = Scope(None if all_namespaces else namespace, operator_namespace, partitions)

    def look(*, again: bool = False) -> Report:
        report = narrow(_read(scope, context), group or (), topic or ())
        if again and sys.stdout.isatty():
            typer.echo(_CLEAR, nl=False)
        _show(report, choose_now(report), output, partitions)
        return report

    report = look()
    with suppress(KeyboardInterrupt):
        while watch:
            time.sleep(pause)
            report = look(again=True)
    if bound is not None:
        named = [each for each in group or () if "*" not in each and "?" not in each]
        raise typer.Exit(check_bound(report, bound, choose_now(report), named))


def _parse(text: str | None) -> Bound | None:
    try:
        return None if text is None else Bound.parse(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, or a number of records", param_hint="--fail-over") from None


def parse_interval(text: str) -> float:
    """Return the seconds from look to look; BadParameter for what is no duration, or none at all."""
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--every") from None
    if seconds <= 0:
        raise typer.BadParameter("must be longer than nothing", param_hint="--every")
    return seconds


def _read(scope: Scope, context: str | None) -> Report:
    report, warning = call(context, lambda desk: read_report(desk, scope))
    if warning is not None:
        typer.echo(f"warning: {warning}", err=True)
    return report


def choose_now(report: Report) -> datetime:
    """Return the operator's time: ages do not hang on the clock of this machine."""
    return report.at if report.source is Source.OPERATOR else datetime.now(UTC)


def _show(report: Report, now: datetime, output: Output, partitions: bool) -> None:
    if output in (Output.JSON, Output.YAML):
        typer.echo(write_data(report.replace(pipelines=()).to_manifest(), output))
        return
    console = open_console()
    print_plain(console, build_lag_view(report, now, wide=output is Output.WIDE, partitions=partitions))
