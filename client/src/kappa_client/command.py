"""Resolves the alias of an output with the command line."""

import json
import subprocess

from kappa_client.alias import Alias, parse_alias
from kappa_client.errors import ResolveError


class CommandResolver:
    """Runs `kappa resolve`, with the kubeconfig or the service account of this process. It takes some seconds of CPU time for a minute."""

    def __init__(
        self, topic: str, namespace: str, *, command: tuple[str, ...] = ("kappa",), timeout: float = 30.0
    ) -> None:
        self._command = (*command, "resolve", topic, "--namespace", namespace, "--output", "json")
        self._timeout = timeout

    def __call__(self) -> Alias:
        """Return the alias; ResolveError where the command fails."""
        try:
            done = subprocess.run(
                self._command, capture_output=True, text=True, timeout=self._timeout, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ResolveError(f"{self._command[0]}: {error}") from error
        if done.returncode:
            raise ResolveError(done.stderr.strip() or f"{self._command[0]} ended with {done.returncode}")
        return parse_alias(json.loads(done.stdout))
