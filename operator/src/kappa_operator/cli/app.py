"""The commands and their options; each command's work is in a module of its own."""

import asyncio
import sys
from importlib.metadata import entry_points
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


@app.command(
    add_help_option=False, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def validate(context: typer.Context) -> None:
    """Check pipelines as a driver would, without a cluster; needs the runtime on this machine."""
    raise typer.Exit(run_local("validate", context.args))


def run_local(command: str, arguments: list[str]) -> int:
    """Run a command of the runtime, which is a package of its own, and return its exit code."""
    found = list(entry_points(group="kappa.commands", name=command))
    if not found:
        typer.echo(f"error: kappa {command} needs the runtime; install the package kappa-pipelines", err=True)
        return 2
    code: int = found[0].load()(arguments)
    return code


def main() -> None:
    """Run the command line."""
    app()
