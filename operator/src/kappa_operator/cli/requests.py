"""Connections of commands to the API server, and commands that change a resource and can wait for the result."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from kubernetes.config import ConfigException, list_kube_config_contexts
from yaml import YAMLError

from kappa_operator.cli.options import Context, parse_duration_option
from kappa_operator.cli.output import open_console
from kappa_operator.cli.wait import Judge, wait_for
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import Key

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

T = TypeVar("T")
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done, and print the result.")]
Timeout = Annotated[
    str, typer.Option(metavar="DURATION", help="How long to wait at most, such as 90s or 10m.")
]


@dataclass(frozen=True)
class Request:
    """What a command requests: `send` does it and returns the resource to watch, whose name `begun` may hold as {name}."""

    send: Callable[[ApiCluster], Awaitable[Key]]
    begun: str
    judge: Judge


def waiting(command: Callable[..., Request]) -> Callable[..., None]:
    """Return a command with the options --context, --wait and --timeout, which sends the request of the given one."""

    def run(*, context: Context = None, wait: Wait = False, timeout: Timeout = "10m", **fields: Any) -> None:
        seconds = parse_duration_option(timeout, "--timeout")
        request = command(**{**fields, "namespace": choose_namespace(fields["namespace"], context)})
        key = call(context, request.send)
        begun = request.begun.format(name=key.name)
        typer.echo(begun)
        if wait:
            _wait(request, key, begun, context, seconds)

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


def _wait(request: Request, key: Key, begun: str, context: str | None, seconds: float) -> None:
    console = open_console()
    with console.status(begun) as status:
        show = status.update if console.is_terminal else console.print
        message = call(context, lambda api: wait_for(api, key, request.judge, seconds, show))
    console.print(message)


def call(context: str | None, work: Callable[[ApiCluster], Awaitable[T]]) -> T:
    """Return what some work at the API server returns."""

    async def connect() -> T:
        async with await ApiCluster.connect(context) as cluster:
            return await work(cluster)

    return asyncio.run(connect())


def choose_namespace(namespace: str, context: str | None) -> str:
    """Return the given namespace, else that of the kubeconfig's context or of the pod, else `default`."""
    if namespace:
        return namespace
    if context is None and _NAMESPACE_FILE.exists():
        return _NAMESPACE_FILE.read_text()
    try:
        contexts, current = list_kube_config_contexts(os.environ.get("KUBECONFIG"))  # type: ignore[no-untyped-call]
    except (ConfigException, OSError, ValueError, TypeError, KeyError, YAMLError):  # connecting reports it
        return "default"
    found = [each for each in contexts if each["name"] == context] if context else [current]
    return (found[0]["context"].get("namespace") if found else None) or "default"


def choose_scope(namespace: str, context: str | None, *, all_namespaces: bool) -> str | None:
    """Return the namespace to list, None for all."""
    return None if all_namespaces else choose_namespace(namespace, context)
