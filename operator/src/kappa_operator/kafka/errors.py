"""From the client library's errors to ours, in the brokers' own words.

A call without a connection only reports a timeout; the error callback has the cause. `ClientErrors` keeps the errors of
the callback since the last success, so that the condition can report them. Secrets are hidden.
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
from kappa_operator.kafka.model import hide_secrets

_AUTHENTICATION = {
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.ILLEGAL_SASL_STATE,
}
_AUTHORIZATION = {
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
}
_UNREACHABLE = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
    KafkaError._RESOLVE,
    KafkaError._DESTROY,
}
_PASSING = {
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
_KEPT = 8


class ClientErrors:
    """The errors of the library's connections since the last success."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = secrets
        self._recorded: deque[KafkaError] = deque(maxlen=_KEPT)

    def record(self, error: KafkaError) -> None:
        """Record an error of the library's callback; one that only counts dead brokers adds nothing."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._recorded.append(error)

    def forget(self) -> None:
        """Forget everything: a call worked."""
        self._recorded.clear()

    @property
    def is_final(self) -> bool:
        """Return whether there is an error that waiting does not resolve."""
        return any(recorded.code() not in _UNREACHABLE for recorded in tuple(self._recorded))

    def explain(self, error: KafkaError) -> KafkaFailure:
        """Return the failure for an error of a call."""
        if error.code() not in _UNREACHABLE:
            return self._build(error)
        recorded = tuple(self._recorded)  # the library's threads add to it meanwhile
        final = [each for each in recorded if each.code() not in _UNREACHABLE]
        return self._build(next(iter([*final, *reversed(recorded), error])))

    def _build(self, error: KafkaError) -> KafkaFailure:
        code, text = error.code(), hide_secrets(error.str(), self._secrets)
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
