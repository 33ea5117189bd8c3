"""A Secret is used only as its annotations allow, and no password is sent in clear."""

import shlex
from typing import Any

import pytest

from fakes.context import Operator, build_resource, build_secret
from fakes.kafka import FakeBroker
from kappa_crds.reasons import Reason
from kappa_operator.consent import KAFKA, KAFKA_OPERATOR, S3, Purpose, check_clear_text, check_consent
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import SecretProblem
from kappa_operator.hosts import Host
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.pipeline.objects import DRIVER_ROLE
from kappa_operator.settings import Settings
from unit.control.lives import PIPELINE, REF, SAVEPOINT, SPEC, STORE, Life, write

MAIN = Key("KafkaCluster", "shop", "main")
PREFIX = "secrets.kappa-platform.io/"
SASL = {"mechanism": "PLAIN", "credentialsSecretRef": {"name": "login"}}
TLS: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("pattern", "host", "wanted"),
    [
        ("kafka.svc", Host("kafka.svc", 9092), True),
        ("KAFKA.svc:9092", Host("kafka.svc", 9092), True),
        ("kafka.svc:9093", Host("kafka.svc", 9092), False),
        ("*.svc", Host("kafka.svc", 9092), True),
        ("*.svc:9092", Host("a.kafka.svc", 9092), True),
        ("*.svc", Host("svc", 9092), False),
        ("*.svc", Host("evilsvc", 9092), False),
        ("*", Host("anything", None), True),
        ("*svc", Host("kafka.svc", 9092), False),
        ("kafka*", Host("kafka.evil.com", 9092), False),
        ("*.*", Host("kafka.evil.com", 9092), False),
        ("", Host("kafka.svc", 9092), False),
        ("[::1]:9092", Host("::1", 9092), True),
        ("10.0.0.1", Host("10.0.0.1", 9092), True),
    ],
)
def test_a_pattern_allows_hosts(pattern: str, host: Host, wanted: bool) -> None:
    assert host.is_in([pattern]) is wanted


@pytest.mark.parametrize(
    "url",
    [
        "ftp://registry", "http://", "http://user:word@registry", "http://good.example.com\\.evil.com", "http://a%2fb",
        "http://$(reboot)", "http://a'b",
    ],
)  # fmt: skip
def test_an_address_without_a_plain_host_gets_no_secret(url: str) -> None:
    with pytest.raises(SecretProblem) as refusal:
        Purpose.of_url(S3, url)
    assert refusal.value.reason is Reason.SECRET_NOT_ALLOWED


def test_a_host_is_compared_as_the_client_uses_it() -> None:
    assert Host.of_url("https://Registry.Example.COM./x") == Host("registry.example.com", 443)
    assert Host.of_url("http://[0:0::1]:8081") == Host("::1", 8081)
    assert Host.of_server("kafka:9092") == Host("kafka", 9092)


def refuse(annotations: dict[str, str], purpose: Purpose) -> str:
    body = {"metadata": {"name": "login", "namespace": "shop", "annotations": annotations}}
    with pytest.raises(SecretProblem) as refusal:
        check_consent(body, purpose, Settings())
    assert refusal.value.reason is Reason.SECRET_NOT_ALLOWED
    return refusal.value.message


def test_the_proposed_command_adds_the_missing_hosts_to_those_that_are_allowed() -> None:
    purpose = Purpose.of_servers((KAFKA, KAFKA_OPERATOR), ["kafka-1:9092", "kafka-2:9092"])
    command = refuse({PREFIX + KAFKA: "kafka-1, *.other"}, purpose).partition("run: ")[2]
    assert shlex.split(command) == [
        "kubectl", "annotate", "secret", "login", "-n", "shop",
        f"{PREFIX}kafka=kafka-1,*.other,kafka-2:9092", "--overwrite",
    ]  # fmt: skip


def test_a_use_allows_no_other_use() -> None:
    purpose = Purpose.of_url(S3, "https://kafka:9092")
    command = refuse({PREFIX + KAFKA: "*"}, purpose).partition("run: ")[2]
    assert shlex.split(command)[-1] == f"{PREFIX}s3=kafka:9092"


def test_the_hosts_of_two_annotations_of_one_use_add_up() -> None:
    purpose = Purpose.of_servers((KAFKA, KAFKA_OPERATOR), ["a:1", "b:1"])
    annotations = {PREFIX + KAFKA: "a", PREFIX + KAFKA_OPERATOR: "b"}
    check_consent({"metadata": {"name": "x", "annotations": annotations}}, purpose, Settings())


def test_an_installation_may_require_no_consent() -> None:
    purpose = Purpose.of_url(S3, "https://s3")
    check_consent({"metadata": {"name": "x"}}, purpose, Settings(require_opt_in=False))


@pytest.mark.parametrize(
    ("url", "allowed", "passes"),
    [
        ("http://registry:8081", (), False),
        ("http://registry:8081", ("other",), False),
        ("http://registry:8081", ("registry:8081",), True),
        ("http://registry.shop.svc", ("*.svc",), True),
        ("https://registry:8081", (), True),
        ("http://localhost:8081", (), True),
        ("http://127.0.0.1:8081", (), True),
        ("http://127.0.0.1.evil.com", (), False),
    ],
)
def test_a_password_is_sent_with_tls_or_where_the_installation_allows_it(
    url: str, allowed: tuple[str, ...], passes: bool
) -> None:
    purpose, settings = Purpose.of_url("registry", url, "a password"), Settings(allow_clear_text=allowed)
    if passes:
        check_clear_text(purpose, settings)
        return
    with pytest.raises(SecretProblem, match=r"secrets\.allowClearText") as refusal:
        check_clear_text(purpose, settings)
    assert refusal.value.reason is Reason.CLEAR_TEXT_CREDENTIALS


def start(settings: Settings, annotations: dict[str, str], **spec: Any) -> Operator:
    broker = FakeBroker(passwords={"ann": "right"})
    operator = Operator(KIND_TABLE, brokers={"kafka:9092": broker}, settings=settings)
    operator.cluster.put(build_resource("KafkaCluster", "main", bootstrapServers=["kafka:9092"], **spec))
    operator.cluster.put(with_annotations("login", annotations, username="ann", password="right"))
    return operator


def annotate(operator: Operator, annotations: dict[str, str], **data: str) -> None:
    operator.cluster.remove(ObjectRef("v1", "Secret", "shop", "login"))
    operator.cluster.put(with_annotations("login", annotations, **data))


def with_annotations(name: str, annotations: dict[str, str], **data: str) -> dict[str, Any]:
    secret = build_secret(name, **data)
    return {**secret, "metadata": {**secret["metadata"], "annotations": annotations}}


async def test_the_operator_does_not_log_in_with_a_secret_that_does_not_allow_it() -> None:
    operator = start(Settings(), {}, sasl=SASL, tls=TLS)
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[1] == "SecretNotAllowed"
    assert not operator.kafka.has(MAIN)
    command = operator.get_condition(MAIN)[2].partition("run: ")[2]
    annotation, _, value = shlex.split(command)[-1].partition("=")

    annotate(operator, {annotation: value}, username="ann", password="right")
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[1] == "Connected"


async def test_a_cluster_that_loses_consent_is_not_ready_any_more() -> None:
    operator = start(Settings(), {PREFIX + KAFKA: "kafka:9092"}, sasl=SASL, tls=TLS)
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[0] == "True"
    annotate(operator, {}, username="ann", password="right")
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[:2] == ("False", "SecretNotAllowed")
    assert not operator.kafka.has(MAIN)


async def test_no_password_goes_to_kafka_in_clear() -> None:
    operator = start(Settings(), {PREFIX + KAFKA: "kafka:9092"}, sasl=SASL)
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN)[:2] == ("False", "ClearTextCredentials")
    assert operator.get_condition(MAIN, "Stalled")[0] == "True"
    assert not operator.kafka.has(MAIN)


REGISTRY = {"url": "https://registry:8081", "credentialsSecretRef": {"name": "login"}}
AUTHORITY = {"url": "https://registry:8081", "caSecretRef": {"name": "login", "key": "password"}}


@pytest.mark.parametrize("registry", [REGISTRY, AUTHORITY])
async def test_no_driver_mounts_a_secret_that_does_not_allow_it(registry: dict[str, Any]) -> None:
    life = Life()
    await life.prepare()
    life.operator.cluster.put(with_annotations("login", {PREFIX + KAFKA: "*"}, username="a", password="b"))
    avro = {"avro": {"registry": registry}}
    write({**SPEC, "sources": [{"name": "events", "topic": "in", "format": avro}]})(life)
    await life.operator.settle(PIPELINE)
    assert life.operator.get_condition(PIPELINE)[1] == "SecretNotAllowed"
    assert not life.operator.cluster.find("v1", "Pod", "shop", DRIVER_ROLE)


async def test_a_driver_that_runs_continues_when_its_secret_loses_consent() -> None:
    life = Life()
    await life.prepare()
    allow = {PREFIX + "registry": "registry:8081"}
    life.operator.cluster.put(with_annotations("login", allow, username="a", password="b"))
    avro = {"avro": {"registry": REGISTRY}}
    write({**SPEC, "sources": [{"name": "events", "topic": "in", "format": avro}]})(life)
    await life.settle()
    (before,) = life.operator.cluster.find("v1", "Pod", "shop", DRIVER_ROLE)
    annotate(life.operator, {}, username="a", password="b")
    life.operator.clock.advance(600)
    await life.settle()
    (after,) = life.operator.cluster.find("v1", "Pod", "shop", DRIVER_ROLE)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert life.operator.get_condition(PIPELINE)[0] == "True"


BUCKET = {"bucket": "payroll", "region": "eu", "credentialsSecretRef": {"name": "login"}}
ADDRESS = "s3.eu.amazonaws.com:443"


@pytest.mark.parametrize(("allowed", "reason"), [("", "SecretNotAllowed"), (ADDRESS, "StoreProvisioning")])
async def test_no_pod_gets_the_keys_of_a_bucket_that_do_not_allow_it(allowed: str, reason: str) -> None:
    operator = Operator(KIND_TABLE, settings=Settings())
    annotations = {PREFIX + S3: allowed} if allowed else {}
    operator.cluster.put(with_annotations("login", annotations, accessKeyId="a", secretAccessKey="b"))
    operator.cluster.put(build_resource("StateStore", "default", s3=BUCKET))
    await operator.reconcile(Key("StateStore", "shop", "default"))
    assert operator.get_condition(Key("StateStore", "shop", "default"))[1] == reason
    assert bool(operator.cluster.find("v1", "Pod", "shop")) is bool(allowed)


async def test_no_pod_of_a_savepoint_gets_keys_that_do_not_allow_it() -> None:
    life = Life()
    await life.prepare()
    write(SPEC)(life)
    life.operator.cluster.put(with_annotations("login", {}, accessKeyId="a", secretAccessKey="b"))
    life.operator.cluster.put(build_resource("StateStore", "stolen", s3=BUCKET))
    source: dict[str, Any] = {
        "import": {"name": "old-1234", "storeRef": "stolen", "targetStoreRef": "default"}
    }
    life.operator.cluster.put(build_resource("Savepoint", "one", pipelineRef="delays", **source))
    await life.operator.settle(SAVEPOINT)
    message = life.operator.get_condition(SAVEPOINT)[2]
    assert "does not allow its use for s3" in message
    pods = life.operator.cluster.find("v1", "Pod", "shop")
    assert not [pod for pod in pods if "login" in str(pod)]
    assert life.operator.cluster.read(REF) is not None
    assert life.operator.cluster.read(ObjectRef(STORE.api_version, "StateStore", "shop", "stolen"))
