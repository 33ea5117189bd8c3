"""`kappa lag`: the lag of consumer groups and pipelines, in records and in time."""

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import typer

from kappa_crds.quantities import parse_duration
from kappa_operator.cli import options
from kappa_operator.cli.errors import Exit
from kappa_operator.cli.lag_view import build_lag_view, is_old, narrow
from kappa_operator.cli.output import Output, print_result
from kappa_operator.cli.report_read import Scope, read_report
from kappa_operator.cli.requests import call, choose_scope
from kappa_operator.report.model import LagReport, Report, Source

_CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True)
class Bound:
    """The largest lag that is allowed: in seconds, or in records."""

    seconds: float | None = None
    records: int | None = None

    @classmethod
    def parse(cls, text: str) -> "Bound":
        """Return the bound of a text such as 60s, 10m or 1000; raise ValueError for anything else."""
        return cls(records=int(text)) if text.isdigit() else cls(seconds=parse_duration(text))


def lag(
    *,
    namespace: options.Namespace = "",
    all_namespaces: options.AllNamespaces = False,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Only groups that match, such as billing or kappa.shop.*."),
    ] = None,
    topic: Annotated[list[str] | None, typer.Option(metavar="TOPIC", help="Only topics that match.")] = None,
    partitions: Annotated[bool, typer.Option("--partitions", help="Show each partition.")] = False,
    output: options.OutputFormat = Output.TABLE,
    fail_over: Annotated[
        str | None,
        typer.Option(
            metavar="LAG",
            help="Exit with 3 if lag is over this, such as 60s or 1000 (records), with 4 if it is not known.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Repeat until Ctrl-C.")] = False,
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="Time between two outputs of --watch.")
    ] = "5s",
    operator_namespace: options.OperatorNamespace = "kappa-system",
    context: options.Context = None,
) -> None:
    """Show the lag of consumer groups and pipelines: in records, in time, and until records are lost."""
    if watch and fail_over is not None:
        raise typer.BadParameter("cannot be used with --watch", param_hint="--fail-over")
    bound = _parse(fail_over)
    seconds = options.parse_duration_option(interval, "--interval")
    namespaces = choose_scope(namespace, context, all_namespaces=all_namespaces)
    scope = Scope(namespaces, operator_namespace, partitions)

    def show(*, clear: bool = False) -> Report:
        report = narrow(fetch_report(scope, context), group or (), topic or ())
        if clear and sys.stdout.isatty():
            typer.echo(_CLEAR, nl=False)
        _show(report, choose_now(report), output, partitions)
        return report

    report = show()
    with suppress(KeyboardInterrupt):
        while watch:
            time.sleep(seconds)
            report = show(clear=True)
    if bound is not None:
        named = [each for each in group or () if "*" not in each and "?" not in each]
        raise typer.Exit(check_bound(report, bound, choose_now(report), named))


def _parse(text: str | None) -> Bound | None:
    try:
        return None if text is None else Bound.parse(text)
    except ValueError as error:
        raise typer.BadParameter(f"{error}, or a number of records", param_hint="--fail-over") from None


def fetch_report(scope: Scope, context: str | None) -> Report:
    """Return the report; a warning has the cause if it comes from another source than the operator."""
    report, warning = call(context, lambda api: read_report(api, scope))
    if warning is not None:
        typer.echo(f"warning: {' '.join(warning.split())}", err=True)
    return report


def choose_now(report: Report) -> datetime:
    """Return the operator's time: ages must not depend on the clock of this machine."""
    return report.at if report.source is Source.OPERATOR else datetime.now(UTC)


def _show(report: Report, now: datetime, output: Output, partitions: bool) -> None:
    print_result(
        output,
        lambda: build_lag_view(report, now, wide=output is Output.WIDE, partitions=partitions),
        report.replace(pipelines=()).to_manifest,
        lambda: dict.fromkeys(lag.group for cluster in report.clusters for lag in cluster.lags),
    )


def check_bound(report: Report, bound: Bound, now: datetime, wanted: Iterable[str] = ()) -> Exit:
    """Return whether all lag is within the bound; unknown lag is not. `wanted` are groups that must exist."""
    lags = [lag for cluster in report.clusters for lag in cluster.lags]
    if any(_is_over(lag, bound) for lag in lags):
        return Exit.UNHEALTHY
    missing = set(wanted) - {lag.group for lag in lags}
    blind = report.source is Source.OPERATOR and (
        not report.clusters or any(is_old(each, now) or each.failure for each in report.clusters)
    )
    if missing or blind or not lags or any(_is_unknown(lag, bound) for lag in lags):
        return Exit.UNKNOWN
    return Exit.OK


def _is_over(lag: LagReport, bound: Bound) -> bool:
    if bound.records is not None:
        return lag.lag is not None and lag.lag > bound.records
    return lag.behind is not None and bound.seconds is not None and lag.behind > bound.seconds


def _is_unknown(lag: LagReport, bound: Bound) -> bool:
    return bool(lag.unknown or (bound.seconds is not None and lag.undated))
