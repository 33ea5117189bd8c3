"""What the Kafka library reports from its own threads, while a call is being explained."""

from confluent_kafka import KafkaError

from kappa_operator.errors import AuthenticationFailed
from kappa_operator.kafka.errors import ClientErrors


class Interrupted(KafkaError):
    """An error during whose reading another thread reports one more."""

    words: ClientErrors

    def code(self) -> int:
        self.words._recorded.append(KafkaError(KafkaError._AUTHENTICATION, "wrong password"))
        return int(super().code())


def record_interrupted() -> ClientErrors:
    words = ClientErrors()
    error = Interrupted(KafkaError._TRANSPORT, "refused")
    error.words = words
    words._recorded.extend([error, KafkaError(KafkaError._AUTHENTICATION, "wrong password")])
    return words


def test_a_failure_is_explained_while_more_errors_are_reported() -> None:
    assert isinstance(
        record_interrupted().explain(KafkaError(KafkaError._TIMED_OUT, "timed out")), AuthenticationFailed
    )


def test_whether_waiting_helps_is_known_while_more_errors_are_reported() -> None:
    assert record_interrupted().is_final
