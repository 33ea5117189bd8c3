"""Duration of a pipeline's last start, and expected duration of the next."""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import Status


class RecoveryStatus(Status):
    """The last start of a driver: how long no records were processed, and why."""

    generation: Annotated[int, Field(ge=0)]
    """Generation of the driver."""
    warm: bool = False
    """The driver was a standby driver; its start is measured from the handover."""
    took: str
    """Duration of the start, for people."""
    seconds: float
    """From the creation of its pod, or from the handover, until each query had committed a batch or had no
    records to read."""
    state_seconds: float = 0.0
    """Of that, the time to load state, summed over its partitions, which are loaded in parallel."""
    state_rows: Annotated[int, Field(ge=0)] = 0
    """Rows of state after the first batches."""
    records: Annotated[int, Field(ge=0)] = 0
    """Lag in records when the first batches started."""
    prepare_seconds: float | None = None
    """From pod creation to the first batch, in the last start without a standby driver."""
    expected_seconds: int | None = None
    """Expected duration of a start without a standby driver: prepareSeconds, the present state loaded as fast
    as last time, and the lag at the present rate."""
