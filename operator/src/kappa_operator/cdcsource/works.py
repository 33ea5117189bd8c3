"""The numbers of pods that work in the database of a source."""

from datetime import datetime

from kappa_crds.cdcsource_status import DatabaseWork
from kappa_crds.savepoint_work import WorkState
from kappa_operator.cdc.work import DatabaseTask


def number_work(
    before: DatabaseWork | None, task: DatabaseTask, fingerprint: str, now: datetime
) -> DatabaseWork:
    """Return the next work after another one, to be recorded before its pod is created."""
    begun = {
        "task": task.value,
        "state": WorkState.RUNNING,
        "fingerprint": fingerprint,
        "at": now.replace(microsecond=0),
        "first": None,
    }
    if before is None:
        return DatabaseWork.model_validate({"number": 1, **begun})
    return before.replace(number=before.number + 1, **begun)
