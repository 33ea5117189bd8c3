"""Alerts that Alertmanager sent to the operator, as recorded in a LagPolicy."""

from datetime import datetime

from kappa_crds.lagstate import LagState, Severity
from kappa_crds.model import Status

ALERT_PREFIX = "alert.kappa-platform.io/"
"""Annotations of a LagPolicy that begin so hold one alert each, under its fingerprint."""


class AlertStatus(Status):
    """An alert that fires. Remediation are taken as if all that is selected were so."""

    name: str
    """Its alertname."""
    severity: Severity
    """How much it matters."""
    state: LagState = LagState.WARNING
    """The state that it stands for."""
    until: datetime
    """When it expires, if Alertmanager does not send it again."""
