"""The command line: `kappa`, also as `kubectl kappa`."""

from kappa_operator.cli.app import main

__all__ = ["main"]
