"""Reads and sets client quotas of Kafka (bytes per second of a producer or consumer), which confluent-kafka's client cannot.

Any broker answers both requests and forwards them to the controller. They need the permissions DescribeConfigs and AlterConfigs on
the cluster. Source of their meaning: KIP-546.
"""

from aiokafka.errors import for_code
from aiokafka.protocol.admin import DescribeClientQuotasRequest
from aiokafka.protocol.types import Boolean, Float64, Int16, Int32

from kappa_operator.errors import AuthorizationFailed, KafkaFailure, KafkaRefused
from kappa_operator.kafka.connection import Connection
from kappa_operator.kafka.messages import NO_TAGS, TEXT, Call, array, declare, flexible
from kappa_operator.kafka.model import Producer, Rate

_PROBLEM = "the quota of a client cannot be read or set"
_EXACT = 0
_ENTITY = array(type=TEXT, name=TEXT)
_OPERATIONS = array(key=TEXT, value=Float64, remove=Boolean)
_ALTER = declare(
    49,
    1,
    flexible(entries=array(entity=_ENTITY, ops=_OPERATIONS), validate_only=Boolean),
    flexible(throttle_time_ms=Int32, entries=array(error_code=Int16, error_message=TEXT, entity=_ENTITY)),
)


def _request_quotas(producer: Producer) -> DescribeClientQuotasRequest:
    """Request the quotas of just this entity; `strict` leaves out entities that have further parts."""
    return DescribeClientQuotasRequest([(kind, _EXACT, name) for kind, name in producer.entity], strict=True)


def _request_change(producer: Producer, rate: float | None, kind: Rate) -> Call:
    """Request to set or remove the rate of one entity; its other quotas stay."""
    entity = [(kind, name, NO_TAGS) for kind, name in producer.entity]
    operation = (kind.value, rate or 0.0, rate is None, NO_TAGS)
    return Call(_ALTER, [(entity, [operation], NO_TAGS)], False)


class QuotaClient:
    """Reads and sets quotas over a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def read(self, producer: Producer, kind: Rate = Rate.PRODUCER) -> float | None:
        """Return the bytes a second of just this entity, None where it has no quota of its own; raise KafkaFailure."""
        answer = await self._connection.ask(_request_quotas(producer), _PROBLEM)
        self._check(answer.error_code, answer.error_message)
        values = {key: value for _, pairs in answer.entries or () for key, value in pairs}
        found: float | None = values.get(kind)
        return found

    async def set(self, producer: Producer, rate: float | None, kind: Rate = Rate.PRODUCER) -> None:
        """Set the bytes a second, or remove the quota; doing it again changes nothing. Raise KafkaFailure."""
        answer = await self._connection.ask(_request_change(producer, rate, kind), _PROBLEM)
        for code, message, *_ in answer.entries:
            self._check(code, message)

    def _check(self, code: int, message: str | None) -> None:
        if code == 0:
            return
        error = for_code(code)
        text = self._connection.hide(f"{_PROBLEM}: {error.__name__}: {message or error.description}")
        if "Authorization" in error.__name__:
            needs = "it needs DescribeConfigs and AlterConfigs on the cluster"
            raise AuthorizationFailed(f"{text}; {needs}", retryable=False)
        if error.retriable:
            raise KafkaFailure(text)
        raise KafkaRefused(text, code=error.__name__)
