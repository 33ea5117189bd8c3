"""How a pipeline is changed while it runs, and what a change means for its state."""

from enum import StrEnum

from kappa_crds.model import Model, PositiveDuration, Status
from kappa_crds.reprocessing_policy import PipelineReprocessing


class UpgradeMode(StrEnum):
    """From which state a new revision continues."""

    LAST_STATE = "LastState"
    SAVEPOINT = "Savepoint"
    STATELESS = "Stateless"
    REPROCESS = "Reprocess"
    AUTO = "Auto"
    SHADOW = "Shadow"
    SHADOW_IF_NEEDED = "ShadowIfNeeded"


SHADOW_MODES = (UpgradeMode.SHADOW, UpgradeMode.SHADOW_IF_NEEDED)
"""Modes in which a change may be made by a Reprocessing."""


class Handover(StrEnum):
    """How one driver follows another."""

    WARM = "Warm"
    COLD = "Cold"


class Upgrade(Model):
    """How a changed spec replaces the active revision."""

    mode: UpgradeMode = UpgradeMode.LAST_STATE
    """LastState continues from the last batch, and refuses a change that its state does not fit.
    Savepoint does the same, but takes a savepoint first, and restores it if the change fails. Stateless
    drops the state and starts at startingOffsets of the sources; it is never chosen automatically.
    Reprocess continues from the last batch if the state fits. Otherwise it starts with empty state,
    reads its sources from their first available record, regardless of startingOffsets, and writes its
    output again. Auto does the same, and emits a warning when it starts with empty state. Shadow computes
    the whole log again beside the active version, in a Reprocessing, where the change alters what is
    computed or does not fit the state; other changes are made as with LastState. ShadowIfNeeded does so
    only where the dry run shows that the change does not fit the state; otherwise it continues from the last
    batch, so earlier results stay as they are."""
    handover: Handover = Handover.WARM
    """Warm starts the new driver beside the old one, which needs room for both, and falls back to Cold where
    no node takes it. Cold starts the new one when the old one has ended."""
    health_timeout: PositiveDuration = "5m"
    """How long a new revision has to show that it works: batches follow each other, or nothing is left to be
    read, and the lag is not above what it was. If it fails before or does not, the one before it takes over
    again."""
    reprocessing: PipelineReprocessing = PipelineReprocessing()
    """How a Reprocessing proceeds that a change in mode Shadow creates."""


class VerdictKind(StrEnum):
    """What a change means for the existing state."""

    RESUME = "Resume"
    REPARTITION = "Repartition"
    REPROCESS = "Reprocess"


class UpgradeVerdict(Status):
    """The result of the dry run of a revision on a copy of the last batch."""

    kind: VerdictKind
    """Resume: it continues from the last batch. Repartition: the same, after its state was repartitioned.
    Reprocess: its state does not fit."""
    reasons: tuple[str, ...] = ()
    """What was changed, and what that means."""
