"""From the client library's errors to ours, in the brokers' own words.

A call that fails for want of a connection only says that it timed out; why is told to the error callback. `Words`
keeps what was told there since the last success, so that the condition can repeat it. A secret never gets through.
"""

from collections import deque
from collections.abc import Sequence

from confluent_kafka import KafkaError

from kappa_crds.reasons import Reason
from kappa_operator.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerUnreachable,
    KafkaFailure,
    KafkaRefused,
    TlsFailed,
)

_AUTHENTICATION = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_AUTHORIZATION = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
_UNREACHABLE = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._RESOLVE,
        KafkaError._DESTROY,
    }
)
_PASSING = frozenset(
    {
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_CONTROLLER,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REASSIGNMENT_IN_PROGRESS,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
_HIDDEN = "(hidden)"
_KEPT = 8


class Words:
    """What the library told of its connections since the last success, most telling first."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = tuple(secret for secret in secrets if secret)
        self._heard: deque[KafkaError] = deque(maxlen=_KEPT)

    def hear(self, error: KafkaError) -> None:
        """Take an error from the library's callback; one that only counts dead brokers says nothing new."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._heard.append(error)

    def forget(self) -> None:
        """Forget everything: a call worked."""
        self._heard.clear()

    @property
    def is_telling(self) -> bool:
        """Return whether something was heard that waiting does not mend."""
        return any(heard.code() not in _UNREACHABLE for heard in tuple(self._heard))

    def explain(self, error: KafkaError) -> KafkaFailure:
        """Return the failure for an error of a call."""
        if error.code() not in _UNREACHABLE:
            return self._build(error)
        heard = tuple(self._heard)  # the library's threads add to it meanwhile
        telling = [each for each in heard if each.code() not in _UNREACHABLE]
        return self._build(next(iter([*telling, *reversed(heard), error])))

    def _build(self, error: KafkaError) -> KafkaFailure:
        code, text = error.code(), self._hide(error.str())
        if code in _AUTHENTICATION:
            return AuthenticationFailed(text)
        if code in _AUTHORIZATION:
            return AuthorizationFailed(text, retryable=False)
        if code == KafkaError._SSL:
            return TlsFailed(text)
        if code in _UNREACHABLE:
            return BrokerUnreachable(text)
        if code in _PASSING or error.retriable():
            return KafkaFailure(f"{error.name()}: {text}")
        reason = Reason.CONFIG_REFUSED if code == KafkaError.INVALID_CONFIG else None
        return KafkaRefused(f"Kafka refused: {text}", code=error.name(), reason=reason)

    def _hide(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text
