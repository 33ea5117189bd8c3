"""The entry point of a driver pod: `python -m kappa_pipelines [REVISION_FILE]`.

It exits with 0 only after a graceful stop. The termination message of the container is always a `DriverExit` in JSON.

The JVM starts first, before the process loads what reads a revision: PySpark, and the models of the API (ADR 93).
"""

import os
import sys
from pathlib import Path

from kappa_pipelines.driver.jvm import REVISION_FILE, start_early


def main(arguments: list[str]) -> int:
    """Run a driver and return the process's exit code."""
    early = start_early(Path(arguments[0]) if arguments else REVISION_FILE)
    from kappa_pipelines.driver.main import run  # noqa: PLC0415 - while the JVM starts

    return run(arguments, early)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a hanging JVM or thread must not keep the pod alive
