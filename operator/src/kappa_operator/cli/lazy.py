"""Commands that are imported when they run."""

from importlib import import_module
from typing import Any

import typer
from typer.main import get_command, get_group


def load_command(module: str, name: str) -> Any:
    """Return the command of a name, with its options, from a module of this package."""
    found = getattr(import_module(f"kappa_operator.cli.{module}"), name)
    if isinstance(found, typer.Typer):
        return get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(found)
    return get_command(alone)
