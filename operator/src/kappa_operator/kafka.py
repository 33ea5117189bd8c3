"""The only way to Kafka: one `KafkaClients` for all clusters, each call batched.  (under construction)"""

from typing import Protocol

from kappa_operator.actions import KafkaAction


class KafkaClients(Protocol):
    """Kafka clusters by their resource."""

    async def apply(self, action: KafkaAction) -> None:
        """Execute the action; raise KafkaFailure in the broker's words."""
