"""The commands. Each command's work and options are in a module of its own, which is imported when the command runs.

All of them together take seconds to import; the help and a command of the laptop need none of that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group


@dataclass(frozen=True)
class Command:
    """A command: what the help shows, and the module of the command line that has it; none for one of the runtime."""

    help: str
    module: str | None = None

    @property
    def is_local(self) -> bool:
        """Return whether it is a command of the runtime, which is a package of its own."""
        return self.module is None


COMMANDS = {
    "savepoint": Command("Take, list and verify savepoints, and restore from them.", "savepoint"),
    "lag": Command(
        "Show how far behind consumer groups and pipelines are: in records, in time, and until records are lost.",
        "lag",
    ),
    "top": Command(
        "Show pipelines and topics live: rates, lag, duration of batches, delay of watermarks, rows of state.",
        "top",
    ),
    "status": Command("Show all Kappa resources: ready or not, why, since when, and what to do.", "status"),
    "plan": Command(
        "Show what the operator would do if the manifests were applied now, and why.", "plan_command"
    ),
    "validate": Command("Check resources as the API server and a driver would, without a cluster."),
    "run": Command("Run a pipeline on this machine, over files or topics, and print its rows."),
    "explain": Command("Show a pipeline's graph, the state it keeps and until when, and its guarantees."),
    "test": Command("Run the test cases of pipelines on this machine."),
}


class LazyGroup(TyperGroup):
    """Has a command without options in place of each, which help and completion use, and loads the one that is to run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name, loaded, and the rest of them."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load(name), rest


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, rich_markup_mode=None, help="Manage Kappa pipelines.")


def load(name: str) -> Any:
    """Return a command with its options."""
    module = COMMANDS[name].module
    if module is None:
        return _wrap(name, _forward(name), add_help_option=False, context_settings=_ANY_ARGUMENTS)
    found = getattr(import_module(f"kappa_operator.cli.{module}"), name)
    return get_group(found) if isinstance(found, typer.Typer) else _wrap(name, found)


_ANY_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}


def _wrap(name: str, function: Callable[..., None], **settings: Any) -> Any:
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, **settings)(function)
    return get_command(alone)


def _forward(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        raise typer.Exit(run_local(name, context.args))

    return command


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kappa {version('kappa-operator')}")
        raise typer.Exit


@app.callback()
def kappa(
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Manage Kappa pipelines."""


for _name, _command in COMMANDS.items():
    app.command(_name, short_help=_command.help)(kappa)


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
