"""`kappa reprocess`: the whole log of a pipeline again, next to production."""

from typing import Annotated

import typer

from kappa_crds.reprocessing import RequestAction
from kappa_operator.cli.errors import CommandGroup
from kappa_operator.cli.options import Namespace
from kappa_operator.cli.reprocess_check import check
from kappa_operator.cli.reprocess_requests import judge_action, request_action
from kappa_operator.cli.reprocess_start import start
from kappa_operator.cli.reprocess_watch import watch
from kappa_operator.cli.requests import Request, waiting

Reprocessing = Annotated[
    str, typer.Argument(metavar="NAME", help="The Reprocessing, or the Pipeline for its newest one.")
]

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
reprocess.command()(start)
reprocess.command()(watch)


def _add(action: RequestAction, name: str, help: str, begun: str) -> None:
    """Add the command that requests an action."""

    def run(name: Reprocessing, namespace: Namespace = "") -> Request:
        return Request(lambda api: request_action(api, namespace, name, action), begun, judge_action(action))

    run.__name__, run.__doc__ = name, help
    reprocess.command(name)(waiting(run))


_add(
    RequestAction.COMPARE,
    "compare",
    "Pass the gate of the comparison, or compare the outputs again.",
    "comparison by {name} requested",
)
_add(
    RequestAction.CUT,
    "cut",
    "Make the new version active, also where its outputs differ.",
    "cutover by {name} requested",
)
_add(
    RequestAction.FINISH,
    "finish",
    "End the soak time: the old version stops, and no rollback is possible any more.",
    "end of {name} requested",
)
_add(
    RequestAction.ROLLBACK,
    "rollback",
    "Make the old version active again while it soaks.",
    "rollback by {name} requested",
)
_add(RequestAction.ABORT, "abort", "End a reprocessing before its cutover.", "abort of {name} requested")
