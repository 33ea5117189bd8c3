"""Notifications of a LagPolicy by HTTP about changes of the severity, and their delivery."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kappa_crds.lagstate import LagState, Severity
from kappa_crds.model import Model, Rule, Status
from kappa_crds.resource import SecretRef


class WebhookLevel(StrEnum):
    """From which severity on a webhook is called."""

    WARNING = "Warning"
    CRITICAL = "Critical"


class TokenSecretRef(SecretRef):
    """A Secret that holds a bearer token."""

    key: Annotated[str, Field(min_length=1, max_length=253)] = "token"
    """Key of the Secret that holds the token."""


class Webhook(Model):
    """A server that receives a JSON document by POST. A setting of the operator lists the allowed hosts."""

    url: Annotated[
        str,
        Field(min_length=8, max_length=2048),
        Rule(
            "self.matches('^https?://[^/@?# ]+([/?][^# ]*)?$')",
            "must be an http or https address without user and password, such as https://hooks.example.com/lag",
        ),
    ]
    """Its address. Readers of the policy can read it; keep secrets in tokenSecretRef."""
    token_secret_ref: TokenSecretRef | None = None
    """The token that is sent as Authorization: Bearer."""
    min_severity: WebhookLevel = WebhookLevel.WARNING
    """Warning: notify of each change of the severity. Critical: of Critical, and of its end."""


class NotificationResult(StrEnum):
    """What became of a notification."""

    PENDING = "Pending"
    DELIVERED = "Delivered"
    FAILED = "Failed"


class NotificationStatus(Status):
    """A notification, recorded before it is sent. It may be delivered twice, with one id."""

    id: str
    """The same in each attempt, and in no other notification."""
    severity: Severity
    """What it is now."""
    before: Severity
    """What it was before."""
    state: LagState
    """The state of the worst."""
    message: str
    """Why, for people."""
    at: datetime
    """When that was seen."""
    result: NotificationResult = NotificationResult.PENDING
    """What became of it."""
    attempts: Annotated[int, Field(ge=0)] = 0
    """How often the webhook was called for it."""
    next_attempt: datetime | None = None
    """When it is called again, after an attempt failed."""
    error: str | None = None
    """Why the last attempt failed."""
