"""A driver pod as decisions use it, and what its end means."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kappa_crds.pipeline import Restart
from kappa_crds.pipeline_status import Restarts
from kappa_crds.progress import DriverExit
from kappa_crds.quantities import parse_duration
from kappa_crds.reasons import Reason
from kappa_operator.backoff import Backoff
from kappa_operator.engine.keys import ObjectRef


@dataclass(frozen=True, slots=True)
class DriverPod:
    """One driver pod. `exit` is set once its container has ended, with the driver's own message where it left one.

    `address` is the URL of its control port. `waiting` is why the container or the pod does not start yet, as a reason and a message for people. One created in
    `standby` does nothing to the checkpoint until it is activated. One at the `side` was created beside the active one, with a
    checkpoint of its own.
    """

    ref: ObjectRef
    uid: str
    generation: int
    revision: str
    phase: str
    deleting: bool = False
    address: str | None = None
    ready: bool = False
    started: bool = False
    waiting: tuple[Reason, str] | None = None
    exit: DriverExit | None = None
    standby: bool = False
    side: bool = False
    created: datetime | None = None

    @property
    def finished(self) -> bool:
        """Return whether the pod will never run again."""
        return self.exit is not None or self.phase in ("Succeeded", "Failed")

    @property
    def unstarted(self) -> bool:
        """Return whether its container never ran."""
        return not self.started and not self.finished


def count_failure(
    restarts: Restarts,
    exit: DriverExit,
    revision: str | None,
    *,
    started: bool,
    policy: Restart,
    now: datetime,
) -> Restarts:
    """Return the counters after a failure, with the time of the next start: the delay doubles with each."""
    crashes = restarts.crashes + (1 if started else 0)
    is_outage = started and exit.reason == Reason.KAFKA_UNAVAILABLE
    scheduling = restarts.scheduling + (0 if started else 1)
    return Restarts(
        crashes=crashes,
        kafka_unavailable=restarts.kafka_unavailable + (1 if is_outage else 0),
        scheduling=scheduling,
        total=restarts.total + 1,
        next_start=now.replace(microsecond=0)
        + timedelta(seconds=delay_restart(crashes + scheduling, policy, revision or "")),
        last_reason=exit.reason,
        last_failure=exit.message,
        non_retryable_revision=None if exit.retryable else revision,
    )


def has_failed(restarts: Restarts) -> bool:
    """Return whether the last driver ended with a failure, or could not be created."""
    return restarts.crashes > 0 or restarts.scheduling > 0


def find_last_failure(restarts: Restarts, policy: Restart) -> datetime | None:
    """Return the earliest time at which the last driver can have failed; None before the first failure.

    Only the time of the next start is recorded, which is at most the longest back-off later.
    """
    if restarts.next_start is None:
        return None
    return restarts.next_start - timedelta(seconds=parse_duration(policy.max_delay))


def delay_restart(failures: int, policy: Restart, key: str) -> float:
    """Return the seconds to wait after so many failures in a row."""
    delays = Backoff(parse_duration(policy.initial_delay), parse_duration(policy.max_delay))
    return round(delays.pause(failures, key))


def forgive(restarts: Restarts, running_since: datetime | None, policy: Restart, now: datetime) -> Restarts:
    """Return the counters, reset when the driver has run without failure for spec.restart.resetAfter."""
    if running_since is None or (restarts.crashes == 0 and restarts.scheduling == 0):
        return restarts
    if (now - running_since).total_seconds() < parse_duration(policy.reset_after):
        return restarts
    return Restarts(total=restarts.total)
