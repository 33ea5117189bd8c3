"""What is observed of the run beside the active one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kappa_crds.inputs import InputTopic
from kappa_crds.pipeline_status import UpgradePhase
from kappa_crds.progress import Progress
from kappa_crds.replay import ArchivedSource
from kappa_crds.reprocessing import ReprocessingPhase
from kappa_crds.revision import Revision
from kappa_crds.topic import DeletionPolicy, TopicSpec
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.reprocessing.objects import ReprocessingResource

BESIDE = (UpgradePhase.REPROCESSING, UpgradePhase.SOAKING)
"""Phases of a change in which there may be a side run."""


@dataclass(frozen=True, slots=True)
class VersionedTopic:
    """A Topic of a version of the outputs, which the pipeline controls."""

    ref: ObjectRef
    uid: str
    topic: str
    """Topic in Kafka."""
    is_there: bool
    """Whether it exists in Kafka."""
    policy: DeletionPolicy = DeletionPolicy.RETAIN
    is_deleting: bool = False


@dataclass(frozen=True)
class SideObserved:
    """All that decisions about the side run need.

    `reprocessing` is that of the present change, only where the pipeline controls it; `is_name_taken`: another one has its name.
    `running` is the revision of the active run, `revision` that of the side run as it was stored, `progress` the report of its driver.
    `topics` are the Topics of its version, `templates` what they are copied from, by the names in the spec, or the problem with that.
    `number` is the version that a new side run gets. `readers` are Pipelines that are being moved from topics of this reprocessing, and members that read them.
    `joins` is the Reprocessing of another Pipeline that this one is to take part in, `inputs` what its new version reads there, once that is known. `failure` is why something could not be done for it.
    """

    reprocessing: ReprocessingResource | None = None
    is_name_taken: bool = False
    running: Revision | None = None
    revision: Revision | None = None
    progress: Progress | None = None
    topics: tuple[VersionedTopic, ...] = ()
    templates: Mapping[str, TopicSpec] = field(default_factory=dict)
    number: int | None = None
    readers: tuple[str, ...] = ()
    joins: ReprocessingResource | None = None
    inputs: tuple[InputTopic, ...] | None = None
    failure: str | None = None
    archives: tuple[ArchivedSource, ...] = ()
    """Archives that the new version can read."""

    @property
    def phase(self) -> ReprocessingPhase | None:
        """Return the phase of the reprocessing, None without one."""
        return None if self.reprocessing is None else self.reprocessing.status.phase

    @property
    def is_chain(self) -> bool:
        """Return whether the reprocessing is of several pipelines: it decides for all, and none withdraws from it."""
        return self.reprocessing is not None and bool(self.reprocessing.status.members)


NO_SIDE = SideObserved()
