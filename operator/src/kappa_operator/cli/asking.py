"""Commands that ask the API server for something and can wait for its end: they return what to ask, and here it is done."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from kappa_crds.quantities import parse_duration
from kappa_operator.cli.savepoint_calls import Desk, SavepointProblem
from kappa_operator.cli.wait import Judge, WaitProblem, await_end
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import Key
from kappa_operator.errors import KappaError

_WIDE = 250

console = Console()
if not console.is_terminal:  # other programs read it line by line
    console = Console(width=_WIDE)

T = TypeVar("T")
Namespace = Annotated[str, typer.Option("-n", "--namespace", help="Namespace.")]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end, and say how it went.")]
Timeout = Annotated[str, typer.Option(help="How long to wait at most, such as 90s or 10m.")]


@dataclass(frozen=True)
class Request:
    """What a command asks for: `ask` does it and returns the resource to look at, whose name `begun` may hold as {name}."""

    ask: Callable[[Desk], Awaitable[Key]]
    begun: str
    judge: Judge


def waiting(command: Callable[..., Request]) -> Callable[..., None]:
    """Return a command with the options --context, --wait and --timeout, which does what the given one asks for."""

    def run(*, context: Context = None, wait: Wait = False, timeout: Timeout = "10m", **fields: Any) -> None:
        request = command(**fields)
        key = call(context, request.ask)
        begun = request.begun.format(name=key.name)
        console.print(begun)
        if wait:
            _await(request, key, begun, context, parse_duration(timeout))

    own = inspect.signature(run)
    added = [each for each in own.parameters.values() if each.kind is inspect.Parameter.KEYWORD_ONLY]
    taken = [
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for each in inspect.signature(command).parameters.values()
    ]
    run.__signature__ = own.replace(parameters=[*taken, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, **{each.name: each.annotation for each in added}}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _await(request: Request, key: Key, begun: str, context: str | None, seconds: float) -> None:
    with console.status(begun) as status:
        show = status.update if console.is_terminal else console.print
        said = call(context, lambda desk: await_end(desk, key, request.judge, seconds, show))
    console.print(said)


def call(context: str | None, work: Callable[[ApiCluster], Awaitable[T]]) -> T:
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
