"""How a pipeline is changed while it runs: the ways, what a change means for its state, and how far one is."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kappa_crds.model import Model, PositiveDuration, Status


class UpgradeMode(StrEnum):
    """Where a new revision goes on from."""

    LAST_STATE = "LastState"
    SAVEPOINT = "Savepoint"
    STATELESS = "Stateless"
    REPROCESS = "Reprocess"
    AUTO = "Auto"


class Handover(StrEnum):
    """How one driver follows another."""

    WARM = "Warm"
    COLD = "Cold"


class Upgrade(Model):
    """How a changed spec takes the place of the one that runs."""

    mode: Annotated[
        UpgradeMode,
        Field(
            description="LastState goes on from the last batch, and refuses a change that its state does not fit. Savepoint does"
            " so too, but takes a savepoint before, without which nothing is changed, and goes back to it if the change fails."
            " Stateless leaves the state behind and begins anew where the sources say; it is never chosen by itself. Reprocess"
            " goes on from the last batch where the state fits; where it does not, it begins with an empty state, reads its"
            " sources from the first record that they still have, whatever startingOffsets says, and writes its outputs again."
            " Auto does the same, and warns when it begins anew, as nobody has asked for that by name."
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
            description="How long a new revision has to show that it works: batches follow each other, or nothing is left to be"
            " read, and the lag is not above what it was. If it fails before or does not, the one before it takes over again."
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
    SAVING = "Saving"
    HANDING_OVER = "HandingOver"
    WATCHING = "Watching"
    DONE = "Done"
    REFUSED = "Refused"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    WITHDRAWN = "Withdrawn"


AT_WORK = (UpgradePhase.REHEARSING, UpgradePhase.SAVING, UpgradePhase.HANDING_OVER)
"""Phases in which the new revision does not run yet."""
TAKEN_BACK = (UpgradePhase.REFUSED, UpgradePhase.ROLLING_BACK, UpgradePhase.ROLLED_BACK)
"""Phases in which the revision before the change is the one to run."""

NEEDS_SAVEPOINT = (UpgradePhase.SAVING, UpgradePhase.HANDING_OVER, UpgradePhase.WATCHING)
"""Phases in which the savepoint that was taken before a change may still be gone back to."""


class Anew(Status):
    """The checkpoint of a revision that does not go on from the state that there is."""

    checkpoint: Annotated[
        int, Field(ge=0, description="Number of the checkpoint, which begins empty, or as a savepoint.")
    ]
    instead_of: Annotated[
        int, Field(ge=0, description="Number of the checkpoint before; it is left as it is.")
    ]
    from_beginning: Annotated[
        tuple[str, ...],
        Field(description="Sources that are read from the first record that they have, whatever they say."),
    ] = ()


class FirstBatch(Status):
    """The first batch that a new revision has committed in one query."""

    sink: Annotated[str, Field(description="Name of the sink.")]
    batch: Annotated[int, Field(ge=0, description="The batch.")]


class Health(Status):
    """What a new revision is measured against while it is watched."""

    lag: Annotated[
        int, Field(ge=0, description="Records not processed at the handover, or after the first batch.")
    ] = 0
    batches: Annotated[
        tuple[FirstBatch, ...], Field(description="Its first batches, once each query has one.")
    ] = ()


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
    mode: Annotated[
        UpgradeMode, Field(description="The mode it is made in; a mere restart always is one of LastState.")
    ] = UpgradeMode.LAST_STATE
    intent: Annotated[
        str | None, Field(description="What the new revision is to do, as a hash, wherever its state is.")
    ] = None
    savepoint: Annotated[
        str | None, Field(description="Name of the Savepoint that is taken before, and gone back to.")
    ] = None
    anew: Annotated[
        Anew | None, Field(description="Where it begins, if not from the state that there is.")
    ] = None
    health: Annotated[
        Health | None, Field(description="What it is measured against while it is watched.")
    ] = None
    verdict: Annotated[UpgradeVerdict | None, Field(description="What the change means for the state.")] = (
        None
    )
    attempts: Annotated[
        int, Field(ge=0, description="How many drivers that stood by have ended before they were ready.")
    ] = 0
    message: Annotated[str | None, Field(description="Why it is where it is, for people.")] = None
    since: Annotated[datetime | None, Field(description="When this phase began.")] = None
