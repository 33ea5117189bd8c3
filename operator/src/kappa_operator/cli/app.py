"""The list of commands, in the order in which a pipeline needs them. Each command is a function in a module of its own, which is imported when the command runs.

All of them together take seconds to import; the help needs none of that.
"""

import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from kappa_operator.cli.errors import CommandGroup
from kappa_operator.cli.lazy import load_command


@dataclass(frozen=True)
class Command:
    """A command: what the help shows, and its module."""

    help: str
    module: str


COMMANDS = {
    "validate": Command("Check resources as the API server and a driver would, without a cluster.", "local"),
    "explain": Command("Show a pipeline's graph, its state with its bounds, and its guarantees.", "local"),
    "run": Command("Run a pipeline on this machine, over files or topics, and print its rows.", "local"),
    "test": Command("Run the test cases of pipelines on this machine.", "local"),
    "diff": Command("Compare two versions of an output topic on this machine.", "diff"),
    "plan": Command("Show what the operator would do if the manifests were applied now, and why.", "plan"),
    "status": Command("Show the health of all Kappa resources: ready or not, why, since when, and what to do.", "status"),
    "lag": Command(
        "Show the lag of consumer groups and pipelines: in records, in time, and until records are lost.", "lag"
    ),
    "top": Command(
        "Show pipelines and topics live: rates, lag, duration of batches, delay of watermarks, rows of state.",
        "top",
    ),
    "savepoint": Command("Take, list and verify savepoints, and restore from them.", "savepoint"),
    "reprocess": Command("Reprocess the whole log of a pipeline, next to production.", "reprocess"),
    "resolve": Command("Print the topic in Kafka that holds an output of a pipeline now, and where its readers moved.", "resolve"),
    "cdc": Command("Databases as sources of change events.", "cdc"),
    "secrets": Command("Print the annotations that Secrets lack for what resources use them for.", "secrets"),
    "convert": Command("Print manifests of an earlier release with the present names.", "convert"),
}  # fmt: skip


class LazyGroup(CommandGroup):
    """Holds an empty command for each, which help and completion use, and loads the one that runs."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name, loaded, and the rest of them."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else load(name), rest


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 success, 1 failure, 2 unusable options or files, 3 unhealthy or over the bound, 4 unknown.",
)


def load(name: str) -> Any:
    """Return a command with its options."""
    return load_command(COMMANDS[name].module, name)


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


def main() -> None:
    """Run the command line, as `kappa` or as the plugin `kubectl kappa`."""
    app(prog_name="kubectl kappa" if Path(sys.argv[0]).name.startswith("kubectl-") else "kappa")
