"""The request of the operator to a savepoint's worker pod, and the answer.

The request is an annotation of the pod, which sees it as a file, so that one object is the whole of an attempt. The answer is the
container's termination message; Kubernetes keeps 4096 bytes of it.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model, Status
from kappa_crds.progress import DriverExit, SavepointProgress
from kappa_crds.stores import StoreAccess, StoreContents

REQUEST_ANNOTATION = "kappa-platform.io/request"
REQUEST_DIR = "/etc/kappa/request"
REQUEST_FILE = f"{REQUEST_DIR}/request.json"


class SavepointTask(StrEnum):
    """The tasks of a worker."""

    TAKE = "Take"
    IMPORT = "Import"
    EXPORT = "Export"
    VERIFY = "Verify"
    DELETE = "Delete"
    COLLECT = "Collect"
    MEASURE = "Measure"
    CHECK = "Check"


class VerifyBy(StrEnum):
    """How thoroughly a savepoint is read."""

    CHECKSUMS = "Checksums"
    STATE_READER = "StateReader"


class WorkState(StrEnum):
    """How far a piece of work is: under way, ended with its pod still there, or over."""

    RUNNING = "Running"
    ENDED = "Ended"
    DONE = "Done"


class Work(Status):
    """The last worker pod of a savepoint. Its number is in the pod's name, and recorded before the pod is made."""

    number: Annotated[int, Field(ge=1)]
    """Number of the pod among all of this savepoint."""
    task: SavepointTask
    """What it was asked for."""
    store: str | None = None
    """The StateStore that it exports to or deletes an exported copy from, where it does."""
    state: WorkState = WorkState.RUNNING
    """How far it is."""
    since: datetime | None = None
    """When it was recorded."""


class CollectRequest(Model):
    """What may go from a store, as things stood at `at`.

    `current` has, for the uid of each pipeline that there is, the folder of its checkpoint below the namespace's and its own.
    """

    namespace: str
    at: datetime
    current: dict[str, str]
    replaced: bool = False
    orphaned: bool = False


class OtherPlace(StoreAccess):
    """The savepoints of a pipeline in another folder, mostly of another store."""

    location: str


class WorkRequest(StoreAccess):
    """One piece of work: on the savepoint `name` below `location`, or where `collect` is set, on all of a store at `location`.

    `source` is the name of the savepoint that is imported, and `other` where that is
    if it is not below the same location. It is exported to `other` under its own name.
    What is measured is all of `namespace` in the store at `location`. A check uses only the folder `name` below `location`.
    `needed_by` are checkpoints that are made of the savepoint: it is not deleted before they are.
    """

    task: SavepointTask
    name: str
    location: str
    needed_by: tuple[str, ...] = ()
    namespace: str = ""
    source: str = ""
    other: OtherPlace | None = None
    verify_by: VerifyBy = VerifyBy.CHECKSUMS
    collect: CollectRequest | None = None


class Removal(Status):
    """What was freed: objects that no savepoint names any more, folders of checkpoints, and the bytes of both.

    If `postponed` has a cause, nothing could be freed; a later collection does it.
    """

    objects: int = 0
    checkpoints: int = 0
    size_bytes: int = 0
    postponed: str = ""


class StateRows(Status):
    """The rows of one stateful operator of a sink's query, all stores together, as Spark's state reader found them."""

    sink: str
    """Name of the sink."""
    operator: Annotated[int, Field(ge=0)]
    """Number of the operator in its query."""
    name: str
    """What Spark calls the operator."""
    rows: Annotated[int, Field(ge=0)]
    """Rows of its state."""


class Verification(Status):
    """What was read: how many files and bytes, the rows of state where they were requested, and what is damaged.

    `damage` names the first files; `damaged` counts all.
    """

    files: int = 0
    size_bytes: int = 0
    damage: tuple[str, ...] = ()
    damaged: int = 0
    state: tuple[StateRows, ...] = ()


class StoreCheck(Status):
    """What a check of a store found besides that it works: the bytes that are free, where that is known."""

    free_bytes: int | None = None


class WorkResult(Status):
    """How a piece of work ended: with what it did, or with why it could not."""

    taken: SavepointProgress | None = None
    removed: Removal | None = None
    verification: Verification | None = None
    contents: StoreContents | None = None
    checked: StoreCheck | None = None
    failure: DriverExit | None = None

    @property
    def problem(self) -> str:
        """Return why there is no result."""
        return self.failure.message if self.failure else "the pod ended without a message"
