"""The entry of a pod that archives a topic: `python -m kappa_pipelines.archiver REQUEST_FILE`.

It writes an `ArchiveResult` as JSON to the termination message of the container, and exits with 0 on success.
"""

import sys
from pathlib import Path

import structlog

from kappa_crds.archive_work import REASON_BYTES, ArchiveRequest, ArchiveResult
from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason
from kappa_pipelines.archiver.work import archive_topic
from kappa_pipelines.errors import DriverError, UnavailableError, shorten
from kappa_pipelines.logs import configure_logs
from kappa_pipelines.revision.environment import termination_file
from kappa_pipelines.revision.load import load_model

log = structlog.get_logger()


def main(arguments: list[str]) -> int:
    """Archive the topic and return the exit code."""
    configure_logs()
    try:
        request = load_model(Path(arguments[0]), ArchiveRequest, "request")
        configure_logs(topic=request.topic)
        result = archive_topic(request)
    except DriverError as error:
        result = _report(error)
    except Exception as error:
        log.exception("unexpected")
        result = _report(UnavailableError(Reason.ARCHIVE_FAILED, f"{type(error).__name__}: {error}"))
    log.info("ended", **result.model_dump(mode="json", exclude_none=True))
    termination_file().write_text(result.model_dump_json(by_alias=True, exclude_none=True))
    return 0 if result.failure is None else 1


def _report(error: DriverError) -> ArchiveResult:
    message = shorten(error.message, REASON_BYTES)
    return ArchiveResult(failure=DriverExit(reason=error.reason, message=message, retryable=error.retryable))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
