"""The commands and their options; each command's work is in a module of its own."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from kappa_operator.cli.plan import PlanProblem, plan_manifests

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Look after Kappa pipelines.")


@app.callback()
def kappa() -> None:
    """Look after Kappa pipelines."""


@app.command()
def plan(
    file: Annotated[
        list[Path], typer.Option("-f", "--filename", help="Manifest file, or - for standard input.")
    ],
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace for manifests that name none.")
    ] = "default",
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
) -> None:
    """Show what the operator would do if the manifests were applied now, and why. Changes nothing."""
    texts = [sys.stdin.read() if str(path) == "-" else path.read_text() for path in file]
    try:
        for line in asyncio.run(plan_manifests(texts, namespace, context)):
            typer.echo(line)
    except PlanProblem as problem:
        typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(1) from None


def main() -> None:
    """Run the command line."""
    app()
