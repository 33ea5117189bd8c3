"""The options of `kappa plan`."""

import asyncio
from typing import Annotated

import typer

from kappa_operator.cli.change import find_judge
from kappa_operator.cli.options import Context, Filename, Files, Namespace, OutputFormat, list_files
from kappa_operator.cli.output import Output, name_resource, print_result
from kappa_operator.cli.plan import plan_manifests
from kappa_operator.cli.requests import choose_namespace


def plan(
    files: Files = None,
    *,
    filename: Filename = None,
    namespace: Namespace = "",
    context: Context = None,
    verdict: Annotated[
        bool, typer.Option(help="Compile changed pipelines on this machine and check what a change means for the state.")
    ] = True,
    output: OutputFormat = Output.TABLE,
) -> None:  # fmt: skip
    """Show what the operator would do if the manifests were applied now, and why. Changes nothing."""
    judge = find_judge() if verdict else None
    planned, note = asyncio.run(
        plan_manifests(list_files(files, filename), choose_namespace(namespace, context), context, judge)
    )
    notes = [] if note is None else [f"# {note}"]
    print_result(
        output,
        lambda: "\n".join([*notes, *(line for each in planned for line in each.describe())]),
        lambda: [each.to_data() for each in planned],
        lambda: (name_resource(each.key.kind, each.key.name) for each in planned),
    )
