"""The options of `kappa plan`."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from kappa_operator.cli.change import find_judge
from kappa_operator.cli.plan import PlanProblem, plan_manifests


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
    try:
        texts = [_read(path) for path in file]
        judge = find_judge() if verdict else None
        for line in asyncio.run(plan_manifests(texts, namespace, context, judge)):
            typer.echo(line)
    except PlanProblem as problem:
        typer.echo(f"error: {problem}", err=True)
        raise typer.Exit(1) from None


def _read(path: Path) -> str:
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text in UTF-8"
        raise PlanProblem(f"{path}: {reason}") from error
