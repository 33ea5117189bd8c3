"""`kappa status`: all resources on one screen, whether they are well, and what to do next."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from kappa_operator.cli.asking import Context, call
from kappa_operator.cli.lag import AllNamespaces, Namespace, OperatorNamespace
from kappa_operator.cli.screen import Output, open_console, print_plain, write_data
from kappa_operator.cli.status_calls import read_overview
from kappa_operator.cli.status_view import build_status_data, build_status_view, choose_exit


def status(
    *,
    namespace: Namespace = "default",
    all_namespaces: AllNamespaces = False,
    output: Annotated[Output, typer.Option("-o", "--output", help="What to print; wide leaves nothing out.")] = Output.TABLE,
    operator_namespace: OperatorNamespace = "kappa-system",
    context: Context = None,
) -> None:  # fmt: skip
    """Show all Kappa resources: ready or not, why, since when, and what to do. Ends with 3 where one is not well, 4 where that is not known."""
    wanted = None if all_namespaces else namespace
    overview = call(context, lambda desk: read_overview(desk, wanted, operator_namespace))
    now = datetime.now(UTC)
    if output in (Output.JSON, Output.YAML):
        typer.echo(write_data(build_status_data(overview, now), output))
    else:
        view = build_status_view(overview, now, mixed=all_namespaces, every=output is Output.WIDE)
        print_plain(open_console(), view)
    raise typer.Exit(choose_exit(overview, now))
