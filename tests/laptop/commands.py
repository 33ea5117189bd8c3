"""Runs a command in this process, as a user types it."""

from collections.abc import Sequence

from kappa_operator.cli.app import app


def kappa(command: str, arguments: Sequence[str]) -> int:
    """Run a command and return its exit code."""
    try:
        app([command, *arguments], prog_name="kappa")
    except SystemExit as ended:
        return int(ended.code or 0)
    raise AssertionError("the command did not end")
