"""How a command ends. All commands have the same exit codes; an expected error is one line on stderr and never a stack trace."""

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

_MOST_PROBLEMS = 3


class Exit(IntEnum):
    """The exit codes of all commands."""

    OK = 0
    FAILED = 1
    """The command failed, or a pipeline is invalid or failed; the message has the fix."""
    USAGE = 2
    """Options or files cannot be used."""
    UNREACHABLE = 2
    """`cdc`: the database or Kafka cannot be reached."""
    UNHEALTHY = 3
    """`status`, `cdc status`: a resource is unhealthy; `lag --fail-over`: lag is over the bound; `reprocess check`: records are missing;
    `reprocess watch`: the new version is not active."""
    UNKNOWN = 4
    """`status`, `lag --fail-over`, `cdc reconcile` and `reprocess check`: the answer is not known."""


class CommandError(Exception):
    """The command cannot do what was requested; the message has the cause and the fix."""

    def __init__(self, message: str, exit_code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class CommandGroup(TyperGroup):
    """Runs commands; an expected error ends in one line. Its help lists each command with the whole first sentence of its own help."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None if there is none of that name."""
        found = self.find_command(ctx, cmd_name)
        if found is not None and found.short_help is None:
            first = re.match(r".*?\.(?=\s|$)", " ".join((found.help or "").split()))
            found.short_help = first[0] if first else found.help
        return found

    def find_command(self, ctx: Any, name: str) -> Any:
        """Return a command as it is declared, None if there is none of that name."""
        return super().get_command(ctx, name)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except CommandError as error:
            _fail(str(error), error.exit_code)
        except RuntimeError:  # how typer ends a command
            raise
        except Exception as error:
            from pydantic import ValidationError  # noqa: PLC0415 - help must not load it

            from kappa_operator.errors import KappaError  # noqa: PLC0415 - help must not load it

            if isinstance(error, ValidationError):
                _fail(_explain_unreadable(error.errors()), Exit.FAILED)
            if not isinstance(error, KappaError):
                raise
            _fail(error.message, Exit.FAILED)


def _explain_unreadable(problems: Sequence[Any]) -> str:
    """Return why a resource of the cluster cannot be read: its CRD is that of another version."""
    found = "; ".join(
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems[:_MOST_PROBLEMS]
    )
    more = f" and {len(problems) - _MOST_PROBLEMS} more" if len(problems) > _MOST_PROBLEMS else ""
    return (
        f"a resource in the cluster is not as this version of kappa knows it ({found}{more});"
        " use the version of the operator: kappa --version shows yours"
    )


def _fail(message: str, code: Exit) -> None:
    typer.echo(f"error: {' '.join(message.split())}", err=True)
    raise typer.Exit(code) from None
