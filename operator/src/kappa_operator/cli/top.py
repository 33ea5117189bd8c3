"""`kappa top`: a live view of pipelines and topics."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from kappa_operator.cli import options
from kappa_operator.cli.lag import choose_now, fetch_report
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.report_read import Scope, read_report
from kappa_operator.cli.requests import call, choose_scope
from kappa_operator.cli.terminal import is_interactive, listen
from kappa_operator.cli.top_view import SortBy, ViewOptions, build_top
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.errors import KappaError
from kappa_operator.report.model import Report


def top(
    *,
    namespace: options.Namespace = "",
    all_namespaces: options.AllNamespaces = False,
    sort: Annotated[SortBy, typer.Option(help="Sort by this at first.")] = SortBy.LAG,
    once: Annotated[bool, typer.Option("--once", help="Print it once, as without a terminal or with -o json, yaml or name.")] = False,
    interval: Annotated[str, typer.Option(metavar="DURATION", help="Time between two requests to the operator.")] = "2s",
    output: options.OutputFormat = Output.TABLE,
    operator_namespace: options.OperatorNamespace = "kappa-system",
    context: options.Context = None,
) -> None:  # fmt: skip
    """Show pipelines and topics live: rates, lag, duration of batches, delay of watermarks, rows of state."""
    seconds = options.parse_duration_option(interval, "--interval")
    namespaces = choose_scope(namespace, context, all_namespaces=all_namespaces)
    scope, view = Scope(namespaces, operator_namespace), ViewOptions(sort)
    if not once and output.is_text and is_interactive():
        call(context, lambda api: Top(api, scope, view, seconds).run())
        return
    report = fetch_report(scope, context)
    print_result(
        output,
        lambda: build_top(report, choose_now(report), view),
        report.to_manifest,
        lambda: (name_resource("Pipeline", each.name) for each in report.pipelines),
    )


class Top:
    """The live screen: the last report, the view options, and a warning."""

    def __init__(self, api: ApiCluster, scope: Scope, options: ViewOptions, interval: float) -> None:
        self._api = api
        self._scope = scope
        self._options = options
        self._interval = interval
        self._report: Report | None = None
        self._warning: str | None = "waiting for the operator …"
        self._changed = asyncio.Event()
        self._is_over = False

    async def run(self) -> None:
        """Show the screen until the key q."""
        refreshing = asyncio.create_task(self._refresh())
        try:
            with (
                listen(self._press, self._changed.set),
                Live(console=Console(), screen=True, auto_refresh=False) as live,
            ):
                while not self._is_over:
                    self._changed.clear()
                    self._draw(live)
                    await self._changed.wait()
                    if refreshing.done():
                        refreshing.result()
        finally:
            refreshing.cancel()
            await asyncio.wait([refreshing])

    def _press(self, key: str) -> None:
        self._is_over = self._is_over or key in "qQ"
        self._options = self._options.press(key)
        self._changed.set()

    def _draw(self, live: Live) -> None:
        report = self._report or Report(at=datetime.now(UTC))
        size = live.console.size
        options = replace(self._options, height=size.height, width=size.width)
        live.update(build_top(report, choose_now(report), options, self._warning), refresh=True)

    async def _refresh(self) -> None:
        """Read reports at the interval; the last one stays, with a warning, while the operator does not respond."""
        try:
            while True:
                try:
                    self._report, self._warning = await read_report(self._api, self._scope)
                except KappaError as error:
                    shown = f"; last report at {self._report.at:%H:%M:%S}" if self._report else ""
                    self._warning = f"{error.message}{shown}"
                self._changed.set()
                await asyncio.sleep(self._interval)
        finally:
            self._changed.set()
