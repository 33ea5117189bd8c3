"""How a pipeline is changed while it runs: the ways, what a change means for its state, and how far one is."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, Status


class UpgradeMode(StrEnum):
    """Where a new revision goes on from."""

    LAST_STATE = "LastState"
    STATELESS = "Stateless"


class Handover(StrEnum):
    """How one driver follows another."""

    WARM = "Warm"
    COLD = "Cold"


class Upgrade(Model):
    """How a changed spec takes the place of the one that runs."""

    mode: Annotated[
        UpgradeMode,
        Field(
            description="LastState goes on from the last batch, and refuses a change that its state does not fit. Stateless"
            " leaves the state behind and begins anew where the sources say; it is never chosen by itself."
        ),
    ] = UpgradeMode.LAST_STATE
    handover: Annotated[
        Handover,
        Field(
            description="Warm starts the new driver beside the old one, which needs room for both, and falls back to Cold"
            " where no node takes it. Cold starts the new one when the old one has ended."
        ),
    ] = Handover.WARM
    health_timeout: Annotated[
        PositiveDuration,
        Field(
            description="How long a new revision has to commit a batch; if it fails before, the one before it takes over again."
        ),
    ] = "5m"


class VerdictKind(StrEnum):
    """What a change means for the state that there is."""

    RESUME = "Resume"
    REPARTITION = "Repartition"
    REPROCESS = "Reprocess"


class UpgradeVerdict(Status):
    """What a dry start of a revision on a copy of the last batch has shown."""

    kind: Annotated[
        VerdictKind,
        Field(
            description="Resume: it goes on from the last batch. Repartition: so it does, once its state was divided anew."
            " Reprocess: its state does not fit."
        ),
    ]
    reasons: Annotated[tuple[str, ...], Field(description="What was changed, and what that means.")] = ()


class UpgradePhase(StrEnum):
    """How far a change is."""

    REHEARSING = "Rehearsing"
    HANDING_OVER = "HandingOver"
    WATCHING = "Watching"
    DONE = "Done"
    REFUSED = "Refused"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"


AT_WORK = (UpgradePhase.REHEARSING, UpgradePhase.HANDING_OVER)
"""Phases in which the new revision does not run yet."""
TAKEN_BACK = (UpgradePhase.REFUSED, UpgradePhase.ROLLING_BACK, UpgradePhase.ROLLED_BACK)
"""Phases in which the revision before the change is the one to run."""


class UpgradeStatus(Status):
    """The last change of a pipeline's revision."""

    phase: Annotated[UpgradePhase, Field(description="How far it is.")]
    revision: Annotated[str, Field(description="The new revision.")]
    previous: Annotated[str | None, Field(description="The revision before it.")] = None
    generation: Annotated[
        int, Field(ge=0, description="Generation of the driver that stands by, or stood by.")
    ] = 0
    uid: Annotated[str | None, Field(description="Uid of its pod, once it was seen.")] = None
    handover: Annotated[Handover, Field(description="How the drivers follow each other.")] = Handover.WARM
    verdict: Annotated[UpgradeVerdict | None, Field(description="What the change means for the state.")] = (
        None
    )
    message: Annotated[str | None, Field(description="Why it is where it is, for people.")] = None
    since: Annotated[datetime | None, Field(description="When this phase began.")] = None
