"""`kappa top`: pipelines and topics as they are now, again and again."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from kappa_operator.cli.asking import Context, call
from kappa_operator.cli.lag import AllNamespaces, Namespace, OperatorNamespace, choose_now, parse_interval
from kappa_operator.cli.reports import Asking, Scope, read_report
from kappa_operator.cli.screen import open_console, print_plain
from kappa_operator.cli.terminal import is_interactive, listen
from kappa_operator.cli.top_view import Look, SortBy, build_top
from kappa_operator.errors import KappaError
from kappa_operator.report.model import Report


def top(
    *,
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    sort: Annotated[SortBy, typer.Option(help="What to sort by at first.")] = SortBy.LAG,
    once: Annotated[bool, typer.Option("--once", help="Print it once, as is done where there is no terminal.")] = False,
    every: Annotated[str, typer.Option(help="How often the operator is asked.")] = "2s",
    operator_namespace: OperatorNamespace = "kappa-system",
    context: Context = None,
) -> None:  # fmt: skip
    """Show pipelines and topics live: rates, lag, duration of batches, delay of watermarks, rows of state."""
    scope = Scope(None if all_namespaces else namespace, operator_namespace)
    look = Look(sort)
    if once or not is_interactive():
        report, warning = call(context, lambda desk: read_report(desk, scope))
        if warning is not None:
            typer.echo(f"warning: {warning}", err=True)
        print_plain(open_console(), build_top(report, choose_now(report), look))
        return
    call(context, lambda desk: Top(desk, scope, look, parse_interval(every)).run())


class Top:
    """The live screen: what was told last, how it is looked at, and what has to be known about it."""

    def __init__(self, cluster: Asking, scope: Scope, look: Look, every: float) -> None:
        self._cluster = cluster
        self._scope = scope
        self._look = look
        self._every = every
        self._report: Report | None = None
        self._warning: str | None = "asking the operator …"
        self._changed = asyncio.Event()
        self._is_over = False

    async def run(self) -> None:
        """Show it until somebody presses q."""
        asking = asyncio.create_task(self._ask())
        try:
            with (
                listen(self._press, self._changed.set),
                Live(console=Console(), screen=True, auto_refresh=False) as live,
            ):
                while not self._is_over:
                    self._changed.clear()
                    self._draw(live)
                    await self._changed.wait()
                    if asking.done():
                        asking.result()
        finally:
            asking.cancel()
            await asyncio.wait([asking])

    def _press(self, key: str) -> None:
        self._is_over = self._is_over or key in "qQ"
        self._look = self._look.press(key)
        self._changed.set()

    def _draw(self, live: Live) -> None:
        report = self._report or Report(at=datetime.now(UTC))
        size = live.console.size
        look = replace(self._look, height=size.height, width=size.width)
        live.update(build_top(report, choose_now(report), look, self._warning), refresh=True)

    async def _ask(self) -> None:
        """Ask again and again; what was told last stays while nobody answers, and is said to be so."""
        try:
            while True:
                try:
                    self._report, self._warning = await read_report(self._cluster, self._scope)
                except KappaError as error:
                    shown = f"; shown is what was so at {self._report.at:%H:%M:%S}" if self._report else ""
                    self._warning = f"{error.message}{shown}"
                self._changed.set()
                await asyncio.sleep(self._every)
        finally:
            self._changed.set()
