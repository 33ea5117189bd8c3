"""`kappa reprocess`: the whole log of a pipeline again, next to production."""

import typer

from kappa_operator.cli.errors import CommandGroup
from kappa_operator.cli.reprocess_check import check

reprocess = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
    help="Reprocess the whole log of a pipeline, next to production.",
)


@reprocess.callback()
def _reprocess() -> None:
    """Reprocess the whole log of a pipeline, next to production."""


reprocess.command()(check)
