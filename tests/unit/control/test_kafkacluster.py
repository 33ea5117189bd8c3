"""KafkaClusters: what a check says, how Secrets get in, and what never gets out."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import KafkaError

from fakes.context import START, Operator, build_resource, build_secret
from fakes.kafka import FakeBroker
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerUnreachable,
    KafkaFailure,
    KafkaRefused,
    SecretProblem,
    TlsFailed,
)
from kappa_operator.kafka.config import build_access, find_secret_keys
from kappa_operator.kafka.errors import ClientErrors
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.lag.model import ClusterSample

MAIN = Key("KafkaCluster", "shop", "main")
PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
PRIVATE = "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"


def start(broker: FakeBroker | None = None, **spec: Any) -> Operator:
    operator = Operator(KIND_TABLE, brokers={"kafka:9092": broker or FakeBroker()})
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"], **spec))
    return operator


async def test_a_cluster_that_answers_is_ready_and_reports_its_id() -> None:
    operator = start()
    outcome = await operator.reconcile(MAIN)
    status = (operator.get(MAIN) or {})["status"]
    assert (status["clusterId"], status["brokers"], status["state"]) == ("kafka-1", 1, "Connected")
    assert status["lastSeen"] == "2026-01-01T00:00:00Z"
    assert outcome.requeue_after == 60


async def test_addresses_of_brokers_are_kept_while_a_broker_is_away_and_other_text_is_left_out() -> None:
    broker = FakeBroker()
    broker.advertised = (
        "10.0.0.8:9093",
        "b-1.example.com:9093",
        "<b>:1",
        "b:0",
        "b:70000",
        "a b:1",
        "x" * 300 + ":1",
    )
    operator = start(broker)
    await operator.reconcile(MAIN)
    broker.advertised = ("b-1.example.com:9093",)
    await operator.reconcile(MAIN)
    assert read_advertised(operator) == ["10.0.0.8:9093", "b-1.example.com:9093"]


async def test_a_changed_spec_forgets_addresses_of_brokers_and_their_number_is_limited() -> None:
    broker = FakeBroker()
    broker.advertised = tuple(f"10.0.1.{n}:9092" for n in range(200))
    operator = start(broker)
    await operator.reconcile(MAIN)
    assert len(read_advertised(operator)) == 64
    broker.advertised = ("10.0.0.9:9092",)
    operator.cluster.patch(ObjectRef("kappa-platform.io/v1alpha1", *MAIN), spec={"checkInterval": "2m"})
    await operator.reconcile(MAIN)
    assert read_advertised(operator) == ["10.0.0.9:9092"]


def read_advertised(operator: Operator) -> list[str]:
    found: list[str] = (operator.get(MAIN) or {})["status"].get("advertised", [])
    return found


async def test_an_unavailable_cluster_reports_the_broker_message_and_is_retried_soon() -> None:
    broker = FakeBroker()
    broker.trouble = BrokerUnreachable(
        "kafka:9092/bootstrap: Connect to ipv4#10.0.0.1:9092 failed: timed out"
    )
    operator = start(broker)
    outcome = await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN) == ("False", "BrokerUnreachable", broker.trouble.message)
    assert operator.get_condition(MAIN, "Reconciling")[0] == "True"
    assert outcome.requeue_after == 5


async def test_the_time_of_the_last_answer_stays_when_a_cluster_goes_away() -> None:
    operator = start()
    await operator.reconcile(MAIN)
    operator.clock.advance(600)
    operator.brokers["kafka:9092"].trouble = BrokerUnreachable("gone")
    await operator.reconcile(MAIN)
    status = (operator.get(MAIN) or {})["status"]
    assert (status["lastSeen"], status["clusterId"]) == ("2026-01-01T00:00:00Z", "kafka-1")


async def test_an_early_reconcile_writes_nothing() -> None:
    operator = start()
    await operator.reconcile(MAIN)
    writes = operator.cluster.fuse.writes
    operator.clock.advance(5)
    await operator.reconcile(MAIN)
    assert operator.cluster.fuse.writes == writes


SASL = {"mechanism": "PLAIN", "credentialsSecretRef": {"name": "login"}}


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (None, "SecretNotFound", 'Secret "login" not found'),
        ({"username": "ann"}, "SecretIncomplete", "key 'password' of Secret login is missing or empty"),
        ({"username": "ann", "password": ""}, "SecretIncomplete", "key 'password' of Secret login"),
        ({"username": "ann", "password": "wrong"}, "AuthenticationFailed", "Invalid username or password"),
        ({"username": "ann", "password": "right"}, "Connected", "connected to cluster kafka-1"),
    ],
)
async def test_what_a_secret_lacks_is_named(data: dict[str, str] | None, reason: str, words: str) -> None:
    operator = start(FakeBroker(passwords={"ann": "right"}), sasl=SASL)
    if data is not None:
        operator.cluster.put(build_secret("login", **data))
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[1] == reason
    assert words in operator.get_condition(MAIN)[2]


async def test_a_changed_secret_is_used_at_the_next_check() -> None:
    operator = start(FakeBroker(passwords={"ann": "new"}), sasl=SASL)
    operator.cluster.put(build_secret("login", username="ann", password="old"))
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[1] == "AuthenticationFailed"
    operator.cluster.put(build_secret("login", username="ann", password="new"))
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[1] == "Connected"


async def check_for(operator: Operator, seconds: float) -> None:
    """Let the checks run as the operator requests them."""
    end = operator.clock.time + timedelta(seconds=seconds)
    while operator.clock.time < end:
        outcome = await operator.reconcile(MAIN)
        assert outcome.requeue_after
        operator.clock.advance(outcome.requeue_after)


async def test_a_refused_log_in_is_repeated_ever_less_often() -> None:
    broker = FakeBroker(passwords={"ann": "new"})
    operator = start(broker, sasl=SASL)
    operator.cluster.put(build_secret("login", username="ann", password="old"))
    await check_for(operator, 60)
    assert 1 < broker.log_ins <= 4
    status = (operator.get(MAIN) or {})["status"]["refusedLogIn"]
    assert status["attempts"] == broker.log_ins
    shown = datetime.fromisoformat(status["nextAttempt"])
    assert f"{shown:%H:%M:%S} UTC" in operator.get_condition(MAIN)[2]
    await check_for(operator, 3540)
    assert broker.log_ins <= 12


async def test_an_operator_that_restarts_does_not_repeat_a_refused_log_in_at_once() -> None:
    broker = FakeBroker(passwords={"ann": "new"})
    operator = start(broker, sasl=SASL)
    operator.cluster.put(build_secret("login", username="ann", password="old"))
    for _ in range(3):
        await operator.reconcile(MAIN)
        operator = operator.restart()
    assert broker.log_ins == 1
    assert operator.get_condition(MAIN)[1] == "AuthenticationFailed"


async def test_a_changed_spec_ends_the_pause() -> None:
    broker = FakeBroker(passwords={"ann": "new"})
    operator = start(broker, sasl=SASL)
    operator.cluster.put(build_secret("login", username="ann", password="old"))
    operator.cluster.put(build_secret("other", username="ann", password="new"))
    await check_for(operator, 60)
    other = {**SASL, "credentialsSecretRef": {"name": "other"}}
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"], sasl=other))
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[1] == "Connected"
    assert "refusedLogIn" not in (operator.get(MAIN) or {})["status"]


async def test_topics_do_not_repeat_a_log_in_that_the_check_found_refused() -> None:
    broker = FakeBroker(passwords={"ann": "right"})
    operator = start(broker, sasl=SASL)
    operator.cluster.put(build_secret("login", username="ann", password="right"))
    await operator.reconcile(MAIN)
    broker.passwords = {"ann": "changed"}
    broker.log_ins = 0
    topics = [Key("Topic", "shop", f"t{number}") for number in range(5)]
    for topic in topics:
        operator.cluster.put(build_resource("Topic", topic.name))
    for topic in topics * 2:
        await operator.reconcile(topic)
    assert broker.log_ins == 1
    assert operator.get_condition(topics[-1])[1] == "AuthenticationFailed"
    await operator.reconcile(MAIN)
    assert broker.log_ins == 2
    assert operator.get_condition(MAIN)[1] == "AuthenticationFailed"


async def test_the_client_of_a_deleted_cluster_is_released() -> None:
    operator = start()
    await operator.reconcile(MAIN)
    operator.cluster.remove(ObjectRef("kappa-platform.io/v1alpha1", *MAIN))
    await operator.reconcile(MAIN)
    assert not operator.kafka.has(MAIN)


def test_tls_and_sasl_become_the_librarys_settings() -> None:
    spec = KafkaClusterSpec.model_validate(
        {
            "bootstrapServers": ["a:1", "b:2"],
            "tls": {
                "caSecretRef": {"name": "ca"},
                "clientSecretRef": {"name": "me"},
                "verifyHostname": False,
            },
            "sasl": {"mechanism": "SCRAM-SHA-256", "credentialsSecretRef": {"name": "login"}},
        }
    )
    keys = [
        ("ca", "ca.crt"),
        ("me", "tls.crt"),
        ("me", "tls.key"),
        ("login", "username"),
        ("login", "password"),
    ]
    assert find_secret_keys(spec) == keys
    secrets = {
        "ca": {"ca.crt": PEM},
        "me": {"tls.crt": PEM, "tls.key": PRIVATE},
        "login": {"username": "ann", "password": "hush"},
    }
    settings = build_access(spec, secrets).settings
    assert settings["security.protocol"] == "sasl_ssl"
    assert settings["bootstrap.servers"] == "a:1,b:2"
    assert settings["sasl.mechanism"] == "SCRAM-SHA-256"
    assert settings["ssl.endpoint.identification.algorithm"] == "none"
    assert (settings["ssl.ca.pem"], settings["ssl.key.pem"]) == (PEM, PRIVATE)


def test_an_access_shows_no_secret_and_changes_its_fingerprint_with_each() -> None:
    spec = KafkaClusterSpec.model_validate({"bootstrapServers": ["a:1"], "sasl": SASL})
    one, other = (
        build_access(spec, {"login": {"username": "a", "password": word}}) for word in ("x1y2", "z")
    )
    assert "x1y2" not in repr(one)
    assert one.fingerprint != other.fingerprint


def test_a_certificate_that_is_none_is_a_problem_of_its_secret() -> None:
    spec = KafkaClusterSpec.model_validate(
        {"bootstrapServers": ["a:1"], "tls": {"caSecretRef": {"name": "ca"}}}
    )
    with pytest.raises(SecretProblem, match=r"key 'ca.crt' of Secret ca is no PEM text"):
        build_access(spec, {"ca": {"ca.crt": "hello"}})


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        (KafkaError._TRANSPORT, BrokerUnreachable, True),
        (KafkaError._AUTHENTICATION, AuthenticationFailed, True),
        (KafkaError.SASL_AUTHENTICATION_FAILED, AuthenticationFailed, True),
        (KafkaError._SSL, TlsFailed, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed, False),
        (KafkaError.REQUEST_TIMED_OUT, KafkaFailure, True),
        (KafkaError.NOT_CONTROLLER, KafkaFailure, True),
        (KafkaError.THROTTLING_QUOTA_EXCEEDED, KafkaFailure, True),
        (KafkaError.INVALID_CONFIG, KafkaRefused, False),
        (KafkaError.POLICY_VIOLATION, KafkaRefused, False),
    ],
)
def test_errors_of_the_library_become_ours(code: int, kind: type[KafkaFailure], retryable: bool) -> None:
    failure = ClientErrors().explain(KafkaError(code, "said so"))
    assert type(failure) is kind
    assert failure.retryable is retryable
    assert "said so" in failure.message


def test_a_timeout_is_explained_by_earlier_errors() -> None:
    words = ClientErrors()
    words.record(KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error: Invalid username"))
    words.record(KafkaError(KafkaError._TRANSPORT, "Disconnected"))
    words.record(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    failure = words.explain(KafkaError(KafkaError._TIMED_OUT, "Local: Timed out"))
    assert isinstance(failure, AuthenticationFailed)
    words.forget()
    assert words.explain(KafkaError(KafkaError._TIMED_OUT, "Local: Timed out")).message == "Local: Timed out"


def test_a_password_that_a_broker_repeats_is_hidden() -> None:
    failure = ClientErrors(["s3cret"]).explain(KafkaError(KafkaError._AUTHENTICATION, "no user with s3cret"))
    assert failure.message == "no user with (hidden)"


async def test_topics_that_wait_are_woken_when_their_cluster_becomes_ready_and_no_others() -> None:
    from kappa_operator.engine.references import find_dependents  # noqa: PLC0415

    operator = start()
    operator.brokers["kafka:9092"].trouble = BrokerUnreachable("away")
    await operator.reconcile(MAIN)
    topic = Key("Topic", "shop", "t")
    operator.cluster.put(build_resource("Topic", "t"))
    operator.cluster.put(build_resource("Topic", "elsewhere", "lab"))
    await operator.reconcile(topic)
    assert operator.get_condition(topic)[1] == "ClusterNotReady"
    assert find_dependents(operator.cache, MAIN) == [topic]
    operator.brokers["kafka:9092"].trouble = None
    await operator.settle(MAIN, topic)
    assert find_dependents(operator.cache, MAIN) == []
    assert operator.clock() == START


@pytest.mark.parametrize(
    ("written", "rates", "said"),
    [
        ({"a": 9, "b": 9}, {"a": 1200.0, "b": 34.0}, "1.2k/s"),
        ({"a": 9, "b": 9}, {"a": 1200.0}, "≥1.2k/s"),
        ({"a": 9}, {"a": 0.0}, "0/s"),
        ({"a": 9}, {}, None),
    ],
)
async def test_status_shows_the_known_incoming_rate(
    written: dict[str, int], rates: dict[str, float], said: str | None
) -> None:
    operator = start()
    operator.lag.samples[MAIN] = ClusterSample(START, 0.1, written=written, rates=rates)
    await operator.reconcile(MAIN)
    assert (operator.get(MAIN) or {})["status"]["lag"].get("rate") == said
