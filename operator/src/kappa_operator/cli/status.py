"""`kappa status`: the health of all resources on one screen, and what to do next."""

from datetime import UTC, datetime

import typer

from kappa_operator.cli.options import AllNamespaces, Context, Namespace, OperatorNamespace, OutputFormat
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.requests import call, choose_scope
from kappa_operator.cli.status_read import read_overview
from kappa_operator.cli.status_view import build_status_data, build_status_view, choose_exit


def status(
    *,
    namespace: Namespace = "",
    all_namespaces: AllNamespaces = False,
    output: OutputFormat = Output.TABLE,
    operator_namespace: OperatorNamespace = "kappa-system",
    context: Context = None,
) -> None:
    """Show the health of all Kappa resources: ready or not, why, since when, and what to do.

    Exit code 3 if a resource is unhealthy, 4 if that is not known.
    """
    scope = choose_scope(namespace, context, all_namespaces=all_namespaces)
    overview = call(context, lambda api: read_overview(api, scope, operator_namespace))
    now = datetime.now(UTC)
    print_result(
        output,
        lambda: build_status_view(overview, now, mixed=scope is None, every=output is Output.WIDE),
        lambda: build_status_data(overview, now),
        lambda: (name_resource(each.kind, each.name) for each in overview.resources),
    )
    raise typer.Exit(choose_exit(overview, now))
