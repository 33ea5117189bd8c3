"""Whom a LagPolicy tells by HTTP when it gets worse or better, and what became of that."""

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

    key: Annotated[
        str, Field(min_length=1, max_length=253, description="Key of the Secret that holds the token.")
    ] = "token"


class Webhook(Model):
    """A server that is told by POST of a JSON document. Which hosts may be called is a setting of the operator."""

    url: Annotated[
        str,
        Field(
            min_length=8,
            max_length=2048,
            description="Its address. Whoever may read the policy may read it; keep secrets in tokenSecretRef.",
        ),
        Rule(
            "self.matches('^https?://[^/@?# ]+([/?][^# ]*)?$')",
            "must be an http or https address without user and password, such as https://hooks.example.com/lag",
        ),
    ]
    token_secret_ref: Annotated[
        TokenSecretRef | None, Field(description="The token that is sent as Authorization: Bearer.")
    ] = None
    min_severity: Annotated[
        WebhookLevel,
        Field(
            description="Warning: told of each change of the severity. Critical: of Critical, and of its end."
        ),
    ] = WebhookLevel.WARNING


class NotificationResult(StrEnum):
    """What became of a notification."""

    PENDING = "Pending"
    DELIVERED = "Delivered"
    FAILED = "Failed"


class NotificationStatus(Status):
    """What a webhook is told, recorded before it is. It may be told twice, with one id."""

    id: Annotated[str, Field(description="The same in each attempt, and in no other notification.")]
    severity: Annotated[Severity, Field(description="What it is now.")]
    before: Annotated[Severity, Field(description="What it was before.")]
    state: Annotated[LagState, Field(description="The state of the worst.")]
    message: Annotated[str, Field(description="Why, for people.")]
    at: Annotated[datetime, Field(description="When that was seen.")]
    result: Annotated[NotificationResult, Field(description="What became of it.")] = (
        NotificationResult.PENDING
    )
    attempts: Annotated[int, Field(ge=0, description="How often the webhook was called for it.")] = 0
    next_attempt: Annotated[
        datetime | None, Field(description="When it is called again, after an attempt failed.")
    ] = None
    error: Annotated[str | None, Field(description="Why the last attempt failed.")] = None
