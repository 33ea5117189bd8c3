"""The platform's own command, as a person runs it on the lab's cluster."""

import os
import subprocess
import sys
from pathlib import Path

from lab.errors import LabError
from lab.paths import KUBECONFIG


def kappa(*arguments: str) -> str:
    """Run the command and return what it prints; LabError with all of it where it fails."""
    command = [str(Path(sys.executable).with_name("kappa")), *arguments]
    environment = {**os.environ, "KUBECONFIG": str(KUBECONFIG)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"kappa {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout
