"""How long a pipeline's last start took, and how long the next one would take."""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import Status


class RecoveryStatus(Status):
    """The last start of a driver: how long nothing was processed for it, and what for."""

    generation: Annotated[int, Field(ge=0, description="Generation of the driver.")]
    warm: Annotated[
        bool, Field(description="It had stood by, so that it is measured from when it was told to take over.")
    ] = False
    took: Annotated[str, Field(description="How long it took, for people.")]
    seconds: Annotated[
        float,
        Field(
            description="From the making of its pod, or from when it was told to take over, until each query had committed a"
            " batch or found nothing to do."
        ),
    ]
    state_seconds: Annotated[
        float,
        Field(
            description="Of that, loading state, summed over its partitions, which are loaded side by side."
        ),
    ] = 0.0
    state_rows: Annotated[int, Field(ge=0, description="Rows of state after the first batches.")] = 0
    records: Annotated[
        int, Field(ge=0, description="Records that were to be caught up when the first batches began.")
    ] = 0
    prepare_seconds: Annotated[
        float | None,
        Field(
            description="From pod to the first batch, in the last start of a driver that had not stood by."
        ),
    ] = None
    expected_seconds: Annotated[
        int | None,
        Field(
            description="What a start without standby would take now, as far as is known: prepareSeconds, the state of its"
            " present size loaded as fast as last, and the lag caught up at the present rate."
        ),
    ] = None
