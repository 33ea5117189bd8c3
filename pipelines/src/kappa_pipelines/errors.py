"""Why a driver ends, as exceptions.

    DriverError                 a reason, a message for people, and whether starting again can help
    ├── SpecError               the revision itself is wrong; it would fail again in the same way
    ├── UnavailableError        something outside is missing or broken; a later start may succeed
    ├── FencedError             a newer generation has taken over; this one must not write any more
    └── LostDataError           going on would lose or corrupt data; a person has to decide

`classify` maps exceptions of Spark and Kafka to these.
"""

from kappa_crds.progress import DriverExit
from kappa_crds.reasons import Reason

MESSAGE_LIMIT = 3500  # Kubernetes keeps 4096 bytes of a termination message


class DriverError(Exception):
    """The driver cannot go on."""

    retryable = True

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    def to_exit(self) -> DriverExit:
        """Return what the container's termination message says, cut to what Kubernetes keeps."""
        return DriverExit(reason=self.reason, message=shorten(self.message), retryable=self.retryable)


class SpecError(DriverError):
    """The revision is wrong."""

    retryable = False


class UnavailableError(DriverError):
    """Kafka, the checkpoint or the JVM is not there."""


class FencedError(DriverError):
    """A newer generation runs."""

    retryable = False

    def __init__(self, mine: int, stored: int) -> None:
        super().__init__(
            Reason.GENERATION_FENCED,
            f"this driver is generation {mine}, but generation {stored} has taken over the checkpoint;"
            " nothing is to be done, the newer driver goes on",
        )


class LostDataError(DriverError):
    """State or offsets that the checkpoint needs are gone or do not fit."""

    retryable = False


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return the text, its middle cut out where its UTF-8 form has more than `limit` bytes."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    half = (limit - 8) // 2
    return f"{raw[:half].decode(errors='ignore')} … {raw[-half:].decode(errors='ignore')}"
