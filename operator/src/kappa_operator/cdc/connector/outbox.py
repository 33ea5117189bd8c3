"""The outbox: Debezium's router of events, for one table only.

Source: Debezium, "Outbox Event Router". Events of other tables pass by, by a predicate on their topic.
"""

from kappa_crds.outbox import Outbox
from kappa_operator.cdc.connector.expressions import qualify, to_expression

ROUTED = "${routedByValue}"
"""What the router replaces by the destination of an event. Kafka Connect replaces nothing in it: references to secrets have a colon."""
GROUP = "outbox"
"""The group of topics of events, and the name of the router."""
_PREDICATE = "isOutbox"


def build_outbox(outbox: Outbox, prefix: str, default_schema: str) -> dict[str, str]:
    """Return the properties of the router."""
    columns, router = outbox.columns, f"transforms.{GROUP}"
    return {
        "predicates": _PREDICATE,
        f"predicates.{_PREDICATE}.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        f"predicates.{_PREDICATE}.pattern": to_expression(
            f"{prefix}.{qualify(outbox.table, default_schema)}"
        ),
        "transforms": GROUP,
        f"{router}.type": "io.debezium.transforms.outbox.EventRouter",
        f"{router}.predicate": _PREDICATE,
        f"{router}.table.field.event.id": columns.id,
        f"{router}.table.field.event.key": columns.key,
        f"{router}.table.field.event.payload": columns.payload,
        f"{router}.table.expand.json.payload": "true",
        f"{router}.route.by.field": columns.destination,
        f"{router}.route.topic.replacement": f"{prefix}.{ROUTED}",
        f"{router}.table.fields.additional.placement": f"{columns.type}:header:type",
    }
