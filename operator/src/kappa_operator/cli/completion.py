"""`kappa completion`: the completion script of a shell, as kubectl has it."""

from enum import StrEnum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]


class Shell(StrEnum):
    """The shells that have a completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")],
) -> None:
    """Print the completion script of a shell. Example: source <(kappa completion bash)."""
    script = get_completion_script(prog_name="kappa", complete_var="_KAPPA_COMPLETE", shell=shell.value)
    typer.echo(script)
