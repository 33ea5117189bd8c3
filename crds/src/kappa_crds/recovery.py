"""Duration of a pipeline's last start, and expected duration of the next."""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import Status


class RecoveryStatus(Status):
    """The last start of a driver: how long no records were processed, and why."""

    generation: Annotated[int, Field(ge=0, description="Generation of the driver.")]
    warm: Annotated[
        bool, Field(description="The driver was a standby driver; its start is measured from the handover.")
    ] = False
    took: Annotated[str, Field(description="Duration of the start, for people.")]
    seconds: Annotated[
        float,
        Field(
            description="From the creation of its pod, or from the handover, until each query had committed a batch or had no"
            " records to read."
        ),
    ]
    state_seconds: Annotated[
        float,
        Field(
            description="Of that, the time to load state, summed over its partitions, which are loaded in parallel."
        ),
    ] = 0.0
    state_rows: Annotated[int, Field(ge=0, description="Rows of state after the first batches.")] = 0
    records: Annotated[int, Field(ge=0, description="Lag in records when the first batches started.")] = 0
    prepare_seconds: Annotated[
        float | None,
        Field(
            description="From pod creation to the first batch, in the last start without a standby driver."
        ),
    ] = None
    expected_seconds: Annotated[
        int | None,
        Field(
            description="Expected duration of a start without a standby driver: prepareSeconds, the present state loaded as fast as"
            " last time, and the lag at the present rate."
        ),
    ] = None
