"""The entry of a savepoint's worker pod: `python -m kappa_pipelines.savepoint REQUEST_FILE`.

Runs one task and writes a `WorkResult` as JSON to the termination message of the container. Exits with 0 on success.
"""

import sys
from pathlib import Path

import structlog

from kappa_crds.reasons import Reason
from kappa_crds.revision import REVISION_DIR, REVISION_KEY
from kappa_crds.savepoint_work import WorkRequest, WorkResult
from kappa_pipelines.errors import DriverError, UnavailableError
from kappa_pipelines.exits import describe_exit
from kappa_pipelines.logs import configure_logs
from kappa_pipelines.revision.environment import termination_file
from kappa_pipelines.revision.load import load_model
from kappa_pipelines.savepoint.work import do_work

log = structlog.get_logger()


def main(arguments: list[str]) -> int:
    """Run the task and return the exit code."""
    configure_logs()
    try:
        request = load_model(Path(arguments[0]), WorkRequest, "request")
        configure_logs(savepoint=request.name, task=request.task)
        result = do_work(request, Path(REVISION_DIR) / REVISION_KEY)
    except DriverError as error:
        result = WorkResult(failure=describe_exit(error))
    except Exception as error:
        log.exception("unexpected")
        crash = UnavailableError(Reason.SAVEPOINT_WORK_FAILED, f"{type(error).__name__}: {error}")
        result = WorkResult(failure=describe_exit(crash))
    log.info("ended", **result.model_dump(mode="json", exclude_none=True))
    termination_file().write_text(result.model_dump_json(by_alias=True, exclude_none=True))
    return 0 if result.failure is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
