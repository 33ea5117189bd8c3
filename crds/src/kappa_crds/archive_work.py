"""The request of the operator to the pod that archives a topic, and the answer.

The request is an annotation of the pod, the answer its termination message, of which Kubernetes keeps 4096 bytes.
"""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import Status
from kappa_crds.progress import DriverExit
from kappa_crds.revision import KafkaConnection
from kappa_crds.stores import StoreAccess

REASON_BYTES = 800
"""Bytes of a message in the answer."""


class ArchiveRequest(StoreAccess):
    """What a pod archives: the records of a topic, in the folder of all archives of the namespace at `location`, for so many `seconds`."""

    location: str
    topic: str
    topic_id: str
    kafka: KafkaConnection
    seconds: Annotated[float, Field(gt=0)]


class ArchiveResult(Status):
    """What a pod did. `ranges` are the archived offsets of the partitions in order: the first one and the end, both 0 where there is none.

    `is_complete`: all that was in the log at the start of the pod is archived. `lost` names records that were removed unarchived.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    behind: int = 0
    is_complete: bool = False
    segments: int = 0
    size_bytes: int = 0
    lost: str = ""
    failure: DriverExit | None = None
