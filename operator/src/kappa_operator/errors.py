"""The operator's errors. Each carries the reason for the condition and whether trying again can help.

KappaError
├── KubernetesError            the API server refused or did not respond
│   ├── AlreadyExists          409 on create
│   ├── Conflict               409: the object was changed by another client, or replaced
│   ├── NotFound               404
│   ├── Refused                400, 403, 422: the request will never pass as it is
│   ├── NotActing              421: the replica of the operator is not the active one
│   └── ApiUnavailable         no answer, 410, 429 or 5xx
├── KafkaFailure               Kafka refused or did not respond
│   ├── BrokerUnreachable      no broker responded
│   ├── AuthenticationFailed   the log-in was refused
│   ├── AuthorizationFailed    the user may not do this
│   ├── TlsFailed              the TLS handshake failed
│   ├── TopicMissing           a topic does not exist, or the user may not see it
│   └── KafkaRefused           a broker refused the request
├── ReferenceProblem           a resource that another one refers to is missing, ambiguous or not ready
├── SecretProblem              a Secret is missing, lacks a key, or may not be used
├── NotAllowed                 the installation does not allow what a spec chooses
├── NameTaken                  an object of the expected name belongs to another owner
├── DriverUnreachable          a driver did not respond at its control port
│   └── DriverRefused          400, 404, 405: its runtime will never do this
├── ConnectFailure             Kafka Connect refused or did not respond
│   ├── ConnectUnreachable     no answer, 5xx, or an answer beyond a limit
│   ├── ConnectBusy            409: its workers distribute connectors just now, or the connector exists already
│   ├── ConnectorNotFound      404
│   └── ConnectRefused         400, 403, 422: the request will never pass as it is
├── NoRolloutSlot              as many pipelines as allowed are being changed
└── WebhookFailure             a webhook may not be called
"""

from typing import Self

from kappa_crds.reasons import Reason


class KappaError(Exception):
    """An error whose message is fit for a condition: what, where, and what to do."""

    reason: Reason = Reason.INTERNAL_ERROR
    retryable: bool = True

    def __init__(self, message: str, *, reason: Reason | None = None, retryable: bool | None = None) -> None:
        super().__init__(message)
        if reason is not None:
            self.reason = reason
        if retryable is not None:
            self.retryable = retryable

    @property
    def message(self) -> str:
        """Return the message for people."""
        return str(self.args[0])


class KubernetesError(KappaError):
    """The API server refused or did not respond."""


class AlreadyExists(KubernetesError):
    """An object of that name is there already."""


class Conflict(KubernetesError):
    """The object changed since it was read."""


class NotFound(KubernetesError):
    """The object is not there."""


class Refused(KubernetesError):
    """The API server will never take this request as it is."""

    retryable = False


class NotActing(KubernetesError):
    """The replica of the operator is not the active one."""


class ApiUnavailable(KubernetesError):
    """The API server did not respond, or refused for now."""


class KafkaFailure(KappaError):
    """Kafka refused or did not respond."""

    reason = Reason.KAFKA_ERROR


class BrokerUnreachable(KafkaFailure):
    """No broker responded."""

    reason = Reason.BROKER_UNREACHABLE


class AuthenticationFailed(KafkaFailure):
    """The log-in was refused."""

    reason = Reason.AUTHENTICATION_FAILED


class AuthorizationFailed(KafkaFailure):
    """The user may not do this."""

    reason = Reason.AUTHORIZATION_FAILED


class TlsFailed(KafkaFailure):
    """The TLS handshake failed."""

    reason = Reason.TLS_FAILED


class TopicMissing(KafkaFailure):
    """A topic does not exist, or the user may not see it."""

    retryable = False


class KafkaRefused(KafkaFailure):
    """A broker refused the request. `code` is the protocol's error name, such as INVALID_CONFIG."""

    retryable = False

    def __init__(self, message: str, *, code: str, reason: Reason | None = None) -> None:
        super().__init__(message, reason=reason)
        self.code = code


class ReferenceProblem(KappaError):
    """What a resource refers to is missing, ambiguous or not ready; `retryable` if it may appear later."""

    def __init__(self, message: str, *, reason: Reason, retryable: bool = False) -> None:
        super().__init__(message, reason=reason, retryable=retryable)


class SecretProblem(KappaError):
    """A Secret is missing, lacks a key, or may not be used."""

    reason = Reason.SECRET_NOT_FOUND

    @classmethod
    def incomplete(cls, name: str, key: str, what: str) -> Self:
        """Return the problem of one key of a Secret that is there."""
        return cls(f"key {key!r} of Secret {name} {what}", reason=Reason.SECRET_INCOMPLETE)


class NotAllowed(KappaError):
    """The installation does not allow what a spec chooses."""

    reason = Reason.NOT_ALLOWED
    retryable = False


class NameTaken(KappaError):
    """An object of the expected name belongs to another owner."""

    reason = Reason.NAME_TAKEN


class DriverUnreachable(KappaError):
    """A driver did not respond its control port."""

    reason = Reason.DRIVER_UNRESPONSIVE


class DriverRefused(DriverUnreachable):
    """A driver will never do this as it is: its runtime is older than the operator, or its pipeline has no batches."""

    retryable = False


class ConnectFailure(KappaError):
    """Kafka Connect refused or did not respond. No message has text of its answer, which may have text of a database."""

    reason = Reason.CONNECT_UNAVAILABLE


class ConnectUnreachable(ConnectFailure):
    """No answer, 5xx, or an answer beyond a limit."""


class ConnectBusy(ConnectFailure):
    """The workers distribute connectors just now, or a connector of that name exists already."""


class ConnectorNotFound(ConnectFailure):
    """The connector is not there."""

    reason = Reason.CONNECTOR_MISSING


class ConnectRefused(ConnectFailure):
    """Kafka Connect will never take this request as it is."""

    reason = Reason.CONNECTOR_REFUSED


class WebhookFailure(KappaError):
    """A webhook may not be called."""

    reason = Reason.WEBHOOK_FAILED


class NoRolloutSlot(KappaError):
    """As many pipelines as allowed are being changed."""

    reason = Reason.UPGRADE_WAITING


class NotLeading(KappaError):
    """Another replica acts now; this one must not."""
