"""Alerts that Alertmanager has told the operator of, as they stand with a LagPolicy."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from kappa_crds.lagstate import LagState, Severity
from kappa_crds.model import Status

ALERT_PREFIX = "alert.kappa-platform.io/"
"""Annotations of a LagPolicy that begin so hold one alert each, under its fingerprint."""


class AlertStatus(Status):
    """An alert that fires. Remediation are taken as if all that is selected were so."""

    name: Annotated[str, Field(description="Its alertname.")]
    severity: Annotated[Severity, Field(description="How much it matters.")]
    state: Annotated[LagState, Field(description="The state that it stands for.")] = LagState.WARNING
    until: Annotated[
        datetime, Field(description="Until when it holds, if Alertmanager does not tell of it again.")
    ]
