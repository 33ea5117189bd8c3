"""`kappa cdc`: databases as sources of change events. A command is imported when it runs, and all of them for the help."""

from typing import Any

import typer

from kappa_operator.cli.errors import CommandGroup
from kappa_operator.cli.lazy import load_command

_MODULES = {
    "reconcile": "cdc_reconcile",
    "status": "cdc_status",
    "snapshot": "cdc_source",
    "offsets": "cdc_source",
    "check": "cdc_check",
}


class _Commands(CommandGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = dict.fromkeys(_MODULES)  # type: ignore[assignment]

    def find_command(self, _ctx: Any, name: str) -> Any:
        return load_command(_MODULES[name], name) if name in _MODULES else None


cdc = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Databases as sources of change events.",
)


@cdc.callback()
def _cdc() -> None:
    """Databases as sources of change events."""
