"""Producers that a LagPolicy may slow down: by the names that they have in Kafka, and each of them by name."""

from typing import Annotated, ClassVar

from pydantic import Field

from kappa_crds.model import Duration, Model, PositiveDuration, Rule

LAG_FINALIZER = "kappa-platform.io/lag-quotas"
"""Holds the deletion of a LagPolicy until the quotas that it set are as they were."""

ClientId = Annotated[
    str,
    Field(min_length=1, max_length=249),
    Rule(
        "!self.matches('[^!-~]')",
        "must be the client.id of producers as they have it, without spaces or wildcards",
    ),
]
User = Annotated[
    str,
    Field(min_length=1, max_length=249),
    Rule(
        "!self.matches('[^ -~]') && !self.contains(' client-id=')",
        "must be a user as Kafka knows it, such as etl or CN=etl,OU=shop",
    ),
]


def _is_same(field: str) -> str:
    """Return the CEL condition that `e` and `other` have the same in a field, or both nothing."""
    return f"has(e.{field}) == has(other.{field}) && (!has(e.{field}) || e.{field} == other.{field})"


class ProducerRef(Model):
    """Producers that obey, as Kafka's quotas name them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("has(self.clientId) || has(self.user)", "names no producer; set clientId, user, or both"),
    )
    client_id: ClientId | None = None
    """Their client.id."""
    user: User | None = None
    """The user that they log in as; with clientId only where both are so."""


class ThrottleRemediation(Model):
    """Producers that are slowed down by a quota while it is critical, and have the quota that they had
    before afterwards."""

    producers: Annotated[
        tuple[ProducerRef, ...],
        Field(min_length=1, max_length=16),
        Rule(
            f"self.all(e, self.exists_one(other, {_is_same('clientId')} && {_is_same('user')}))",
            "names a producer twice; leave one of them out",
        ),
    ]
    """The producers to throttle; others are not affected."""
    bytes_per_second: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1024
    """What each of them may still send to one broker. One that has a smaller quota keeps it."""
    at_most: PositiveDuration = "1h"
    """Maximum duration. Then the producers are released, and not throttled again until all groups were
    healthy once."""
    quiet_for: PositiveDuration = "5m"
    """How long all groups must be healthy before producers are released. It doubles, up to eight times,
    when a release came too early."""
    cool_down: Duration = "10m"
    """Minimum time between a release and the next throttling."""
