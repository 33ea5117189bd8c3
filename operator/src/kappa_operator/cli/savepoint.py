"""`kappa savepoint …`: what kubectl does to the same resources, in one word each, and with an end to wait for."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from kappa_crds.quantities import parse_duration
from kappa_crds.savepoint import SavepointSpec, Verify
from kappa_crds.savepoint_work import VerifyBy
from kappa_crds.topic import DeletionPolicy
from kappa_operator.cli.savepoint_calls import (
    Desk,
    SavepointProblem,
    ask_for_collection,
    ask_for_restore,
    ask_for_verification,
    create_savepoint,
    list_savepoints,
    read_resource,
)
from kappa_operator.cli.savepoint_view import build_table, build_view
from kappa_operator.cli.wait import (
    Judge,
    WaitProblem,
    await_end,
    judge_collected,
    judge_restored,
    judge_taken,
    judge_verified,
)
from kappa_operator.cluster import ApiCluster
from kappa_operator.errors import KappaError
from kappa_operator.keys import Key

_WIDE = 250

app = typer.Typer(no_args_is_help=True, help="Take savepoints, look at them, and go back to them.")
console = Console()
if not console.is_terminal:  # other programs read it line by line
    console = Console(width=_WIDE)

T = TypeVar("T")
Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Namespace.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and say how it went.")]
Timeout = Annotated[str, typer.Option(help="How long to wait at most, such as 90s or 10m.")]


@app.command()
def create(
    pipeline: Annotated[str, typer.Argument(help="The Pipeline; it may run, be suspended or have failed.")],
    *,
    name: Annotated[
        str | None, typer.Option(help="Name of the Savepoint; of pipeline and time where left out.")
    ] = None,
    retain: Annotated[bool, typer.Option("--retain", help="Leave the files when it is deleted.")] = False,
    verify: Annotated[VerifyBy | None, typer.Option(help="Read it back after it was taken.")] = None,
    namespace: Namespace = "default",
    context: Context = None,
    wait: Wait = False,
    timeout: Timeout = "10m",
) -> None:
    """Take a savepoint of a pipeline."""
    policy = DeletionPolicy.RETAIN if retain else DeletionPolicy.DELETE
    by = None if verify is None else Verify(by=verify)
    spec = SavepointSpec(pipeline_ref=pipeline, deletion_policy=policy, verify=by)
    chosen = name or f"{pipeline}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    key = _call(context, lambda desk: create_savepoint(desk, Key("Savepoint", namespace, chosen), spec))
    judge = judge_verified if by else judge_taken
    _end(f"savepoint {key.name} is asked for", key, judge, context=context, wait=wait, timeout=timeout)


@app.command("list")
def list_(
    pipeline: Annotated[str | None, typer.Option(help="Only those of this Pipeline.")] = None,
    namespace: Namespace = "default",
    context: Context = None,
) -> None:
    """List savepoints, the newest first."""
    found = _call(context, lambda desk: list_savepoints(desk, namespace, pipeline))
    console.print(build_table(found) if found else f"there are no savepoints in namespace {namespace}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The Savepoint.")],
    namespace: Namespace = "default",
    context: Context = None,
) -> None:
    """Show a savepoint: what it holds, where it is, and how it is."""
    key = Key("Savepoint", namespace, name)
    console.print(build_view(_call(context, lambda desk: read_resource(desk, key))))


@app.command()
def verify(
    name: Annotated[str, typer.Argument(help="The Savepoint.")],
    *,
    by: Annotated[VerifyBy, typer.Option(help="How thoroughly it is read.")] = VerifyBy.CHECKSUMS,
    namespace: Namespace = "default",
    context: Context = None,
    wait: Wait = False,
    timeout: Timeout = "10m",
) -> None:
    """Read a savepoint back: its files, or also every row of its state."""
    key = Key("Savepoint", namespace, name)
    _call(context, lambda desk: ask_for_verification(desk, key, by, _now()))
    _end(
        f"savepoint {name} is read back by {by}",
        key,
        judge_verified,
        context=context,
        wait=wait,
        timeout=timeout,
    )


@app.command()
def restore(
    name: Annotated[str, typer.Argument(help="The Savepoint.")],
    *,
    to: Annotated[
        str | None, typer.Option(help="The Pipeline that is to go on from it; its own where left out.")
    ] = None,
    namespace: Namespace = "default",
    context: Context = None,
    wait: Wait = False,
    timeout: Timeout = "10m",
) -> None:
    """Have a pipeline go on from a savepoint. Records after it are processed again; topics are not set back."""
    savepoint = Key("Savepoint", namespace, name)
    key = _call(context, lambda desk: ask_for_restore(desk, savepoint, to, _now()))
    _end(
        f"pipeline {key.name} goes on from {name}",
        key,
        judge_restored,
        context=context,
        wait=wait,
        timeout=timeout,
    )


@app.command()
def gc(
    store: Annotated[
        str | None, typer.Argument(help="The StateStore; may be left out where there is one.")
    ] = None,
    namespace: Namespace = "default",
    context: Context = None,
    wait: Wait = False,
    timeout: Timeout = "10m",
) -> None:
    """Remove from a state store what nothing needs any more, as its spec.collection says."""
    key = _call(context, lambda desk: ask_for_collection(desk, namespace, store, _now()))
    _end(
        f"state store {key.name} is looked through",
        key,
        judge_collected,
        context=context,
        wait=wait,
        timeout=timeout,
    )


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _call(context: str | None, work: Callable[[Desk], Awaitable[T]]) -> T:
    """Do something at the API server; end with one line where that cannot be."""

    async def connect() -> T:
        async with await ApiCluster.connect(context) as cluster:
            return await work(cluster)

    try:
        return asyncio.run(connect())
    except (KappaError, SavepointProblem, WaitProblem) as error:
        message = error.message if isinstance(error, KappaError) else str(error)
        typer.echo(f"error: {message}", err=True)
        raise typer.Exit(1) from None


def _end(begun: str, key: Key, judge: Judge, *, context: str | None, wait: bool, timeout: str) -> None:
    """Say what was begun, and where that is wanted, wait for its end."""
    console.print(begun)
    if not wait:
        return
    with console.status(begun) as status:
        show = status.update if console.is_terminal else console.print
        said = _call(context, lambda desk: await_end(desk, key, judge, parse_duration(timeout), show))
    console.print(said)
