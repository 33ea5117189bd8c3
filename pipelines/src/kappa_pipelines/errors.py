"""Exceptions that end a driver.

    DriverError                 a reason, a message, and whether a retry can help
    ├── SpecError               the revision is invalid; a retry would fail in the same way
    ├── UnavailableError        something outside is missing or broken; a retry may succeed
    ├── FencedError             a newer generation has taken over; this one must not write
    └── LostDataError           continuing would lose or corrupt data; a person must decide

`failures.classify` maps exceptions of Spark and Kafka to these. Python workers load this module, so it does without models.
"""

from kappa_crds.reasons import Reason

MESSAGE_LIMIT = 3500  # Kubernetes keeps 4096 bytes of a termination message


class DriverError(Exception):
    """The driver cannot continue."""

    retryable = True

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class SpecError(DriverError):
    """The revision is invalid."""

    retryable = False


class UnavailableError(DriverError):
    """Kafka, the checkpoint or the JVM is unavailable."""


class FencedError(DriverError):
    """A newer generation runs."""

    retryable = False

    def __init__(self, mine: int, stored: int) -> None:
        super().__init__(
            Reason.GENERATION_FENCED,
            f"this driver is generation {mine}, but generation {stored} has taken over the checkpoint;"
            " no action is needed, the newer driver continues",
        )


class LostDataError(DriverError):
    """State or offsets of the checkpoint are lost or do not fit."""

    retryable = False


def shorten(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return the text without its middle if its UTF-8 form has more than `limit` bytes."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    half = (limit - 8) // 2
    return f"{raw[:half].decode(errors='ignore')} … {raw[-half:].decode(errors='ignore')}"
