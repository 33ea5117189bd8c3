"""What is observed of a reprocessing, and how a verdict on it becomes its status."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kappa_crds.pipeline_status import Run, UpgradePhase, UpgradeStatus
from kappa_crds.progress import DriverState, Hold, Progress
from kappa_crds.reprocessing import MemberStatus, ReprocessingPhase, ReprocessingStatus
from kappa_crds.resource import ResourceStatus
from kappa_operator.engine.actions import RecordStatus, SetQuota
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.plan import Failure, Plan, Verdict, update_status
from kappa_operator.kafka.model import GroupView, Producer
from kappa_operator.log.eta import Eta
from kappa_operator.log.hold import Holds
from kappa_operator.log.overtake import Overtake
from kappa_operator.log.proof import LogProof
from kappa_operator.pipeline.driver import DriverPod
from kappa_operator.pipeline.objects import PipelineResource, build_token_ref
from kappa_operator.reprocessing.objects import ReprocessingResource, is_controlled_by
from kappa_operator.reprocessing.soak import FallingBehind

NO_HOLDS = Holds()
_BESIDE = (UpgradePhase.REPROCESSING, UpgradePhase.SOAKING)


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver of a run: the Secret with its token, its pod, and its report while it answers."""

    run: Run
    token: ObjectRef
    pod: DriverPod | None = None
    progress: Progress | None = None

    @property
    def is_running(self) -> bool:
        """Return whether its queries run."""
        return self.progress is not None and self.progress.state is DriverState.RUNNING


@dataclass(frozen=True, slots=True)
class Reader:
    """Another Pipeline that reads the outputs, and the driver of its active run. `is_changing`: its driver is about to be replaced.

    `reads` are the pipelines of the reprocessing whose outputs it reads.
    """

    name: str
    driver: Driver
    is_changing: bool = False
    reads: tuple[str, ...] = ()

    @property
    def hold(self) -> Hold | None:
        """Return the hold of its driver."""
        return None if self.driver.progress is None else self.driver.progress.hold


@dataclass(frozen=True, slots=True)
class ReplayQuota:
    """The quota of the replay in Kafka, as it is: bytes per second, None without one."""

    cluster: Key
    client: Producer
    rate: float | None = None


@dataclass(frozen=True)
class ReprocessingObserved:
    """All that a decision about a reprocessing needs.

    `pipeline` is None where it is gone or cannot be read. `active` and `side` are the drivers of its runs, the side run only where it is of
    this reprocessing. `readers` are the Pipelines that read the outputs, until the runs are exchanged, and `groups` the consumer groups, in `cluster`; `group_problem` is why they cannot be read. `proof` is that of the log, while one is needed, `holds` are what holds its retention, or gives it back, `eta` the estimate of the replay.
    `members` are the Pipelines that are reprocessed with it, each as if it were the first one, and `found` those that will be, before
    they are recorded; `chain_problem` is why they cannot be. `quota` is that of its consumers, where one is wanted or recorded. `overtakes` are the partitions whose records
    are removed before they are read, the most urgent first. `falling_behind` is the new version while the old one soaks.
    """

    resource: ReprocessingResource
    pipeline: PipelineResource | None = None
    active: Driver | None = None
    side: Driver | None = None
    readers: tuple[Reader, ...] = ()
    groups: tuple[GroupView, ...] = ()
    group_problem: str = ""
    cluster: Key | None = None
    proof: LogProof | None = None
    holds: Holds = NO_HOLDS
    eta: Eta | None = None
    quota: ReplayQuota | None = None
    overtakes: tuple[Overtake, ...] = ()
    falling_behind: FallingBehind | None = None
    members: "tuple[ReprocessingObserved, ...]" = ()
    found: tuple[MemberStatus, ...] = ()
    chain_problem: str = ""
    member: MemberStatus | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def status(self) -> ReprocessingStatus:
        """Return the status as it was read."""
        return self.resource.status

    @property
    def phase(self) -> ReprocessingPhase:
        """Return the phase."""
        return self.resource.status.phase

    @property
    def is_controlled(self) -> bool:
        """Return whether the Pipeline that it names created it."""
        return self.pipeline is not None and is_controlled_by(self.resource, self.pipeline)

    @property
    def name(self) -> str:
        """Return the name of the pipeline."""
        return self.resource.spec.pipeline_ref if self.member is None else self.member.pipeline_ref

    @property
    def parties(self) -> "tuple[ReprocessingObserved, ...]":
        """Return the first pipeline and all members, each after those that it reads from."""
        return (self, *self.members)

    @property
    def is_chain(self) -> bool:
        """Return whether several pipelines are reprocessed as one."""
        return bool(self.status.members)

    @property
    def change(self) -> UpgradeStatus | None:
        """Return the change of the pipeline where this reprocessing is made for it."""
        change = None if self.pipeline is None else self.pipeline.status.upgrade
        if self.member is not None:
            is_own = change is not None and change.reprocessing == self.resource.metadata.name
            return change if is_own else None
        if change is None or not self.resource.metadata.name.endswith(f"-{change.intent}"):
            return None
        return change

    @property
    def has_cut_over(self) -> bool:
        """Return whether the new version is active, and the old one soaks."""
        return self.change is not None and self.change.phase is UpgradePhase.SOAKING

    @property
    def has_followed(self) -> bool:
        """Return whether the pipeline of a chain has made the recorded cut, or the one back; one that is gone has nothing to make."""
        pending = UpgradePhase.SOAKING if self.status.rollback_cut is not None else UpgradePhase.REPROCESSING
        return self.change is None or self.change.phase is not pending

    @property
    def departure(self) -> str:
        """Return why a pipeline of a chain does not take part any more, empty where it does."""
        pipeline, name = self.pipeline, self.name
        if pipeline is None or pipeline.metadata.deletion_timestamp is not None:
            return f"Pipeline {name} was deleted"
        if self.member is not None and not self.member.joined:
            return ""
        if self.change is None or self.change.phase not in _BESIDE:
            return f"Pipeline {name} does not take part any more"
        return self.change.leaves or ""

    @property
    def failure(self) -> str:
        """Return why the last action failed, empty where none did. A quota that cannot be set blocks nothing."""
        blocking = [each for each in self.failures if not isinstance(each.action, SetQuota)]
        return blocking[-1].error.message if blocking else ""

    @property
    def token(self) -> ObjectRef:
        """Return the Secret with the token of the drivers."""
        if self.pipeline is None:
            raise AssertionError("a driver has a pipeline")
        return build_token_ref(self.pipeline)


def report(
    observed: ReprocessingObserved, verdict: Verdict, now: datetime, after: float | None = None, **fields: Any
) -> Plan:
    """Return the plan that reports a verdict, and reconciles again after so many seconds."""
    return Plan((), build_status(observed, verdict, now, **fields), after)


def enter(
    observed: ReprocessingObserved, phase: ReprocessingPhase, verdict: Verdict, now: datetime, **fields: Any
) -> Plan:
    """Return the plan that records a phase, which starts now, and continues with the next step. Its reason makes an Event."""
    since = now.replace(microsecond=0)
    fields = {"started": observed.status.started or since, **fields, "phase": phase, "since": since}
    status = build_status(observed, verdict, now, **fields).replace(state=phase)
    return Plan((RecordStatus(status),), requeue=True)


def build_status(
    observed: ReprocessingObserved, verdict: Verdict, now: datetime, **fields: Any
) -> ResourceStatus:
    """Return the status with the verdict and the given fields."""
    return update_status(observed.resource, verdict, now, **fields)


def record(observed: ReprocessingObserved, **fields: Any) -> Plan:
    """Return the plan that records a step within a phase."""
    return Plan((RecordStatus(observed.status.replace(**fields)),), requeue=True)


def record_parties(observed: ReprocessingObserved, values: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields of the status with these values for each party, the first pipeline first."""
    first, *others = values
    members = (
        member.replace(**fields) for member, fields in zip(observed.status.members, others, strict=True)
    )
    return {**first, "members": tuple(members)} if others else dict(first)
