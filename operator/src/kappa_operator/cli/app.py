"""The commands and their options; each command's work is in a module of its own."""

import asyncio
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from kappa_operator.cli.change import find_judge
from kappa_operator.cli.lag import lag
from kappa_operator.cli.plan import PlanProblem, plan_manifests
from kappa_operator.cli.savepoint import app as savepoint_app
from kappa_operator.cli.status import status
from kappa_operator.cli.top import top

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Look after Kappa pipelines.")
app.add_typer(savepoint_app, name="savepoint")
app.command()(lag)
app.command()(top)
app.command()(status)


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
    verdict: Annotated[
        bool,
        typer.Option(
            help="Compile changed pipelines on this machine and judge what that means for the state."
        ),
    ] = True,
) -> None:
    """Show what the operator would do if the manifests were applied now, and why. Changes nothing."""
    texts = [sys.stdin.read() if str(path) == "-" else path.read_text() for path in file]
    try:
        judge = find_judge() if verdict else None
        for line in asyncio.run(plan_manifests(texts, namespace, context, judge)):
            typer.echo(line)
    except PlanProblem as problem:
        typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(1) from None


_LOCAL_COMMANDS = {
    "validate": "Check pipelines as a driver would, without a cluster.",
    "run": "Run a pipeline on this machine, over files or topics, and print its rows.",
    "explain": "Show a pipeline's graph, the state it keeps and until when, and its guarantees.",
    "test": "Run the test cases of pipelines on this machine.",
}


def _add_local_command(name: str, help_text: str) -> None:
    def command(context: typer.Context) -> None:
        raise typer.Exit(run_local(name, context.args))

    app.command(
        name,
        help=f"{help_text} Needs the runtime on this machine.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(command)


for _name, _help in _LOCAL_COMMANDS.items():
    _add_local_command(_name, _help)


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
