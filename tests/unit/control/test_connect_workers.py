"""Workers of Kafka Connect that the operator runs: created, replaced only for a reason, removed, and what is reported of them."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from fakes.context import Operator, build_secret
from fakes.kafka import FakeBroker
from kappa_crds.kinds import find_kind
from kappa_crds.pod_template import PodTemplate
from kappa_operator.connect.access import resolve_connect
from kappa_operator.connect.names import CONNECT_LABEL
from kappa_operator.connect.objects import SECRETS_ANNOTATION, SETTINGS_ANNOTATION
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import BrokerUnreachable, ConnectUnreachable, NameTaken, ReferenceProblem
from kappa_operator.settings import Settings
from kappa_operator.uses import list_uses
from unit.control.connect_life import (
    MAIN,
    REF,
    REST,
    TOPICS,
    WORKERS,
    declare,
    get_connect,
    read_template,
    run_pods,
    settle,
    start,
)

LOGIN = {"sasl": {"mechanism": "SCRAM-SHA-512", "credentialsSecretRef": {"name": "connect-login"}}}
SECURE: dict[str, Any] = {
    "tls": {"caSecretRef": {"name": "ca"}},
    "connect": {"workers": {"credentials": LOGIN}},
}


def put_log_in(operator: Operator) -> None:
    operator.cluster.put(build_secret("connect-login", username="connect", password="hush-hush"))
    operator.cluster.put(build_secret("ca", ca_crt="-----BEGIN CERTIFICATE-----\nx\n"))


async def test_topics_come_first_and_then_workers_and_the_status_says_when_they_answer() -> None:
    operator = await start().settle(MAIN)
    topics = operator.brokers["kafka:9092"].topics
    assert {name: (topic.partitions, topic.configs) for name, topic in topics.items()} == {
        name: (partitions, {"cleanup.policy": "compact"})
        for name, partitions in zip(TOPICS, (1, 5, 3), strict=True)
    }
    assert (operator.cluster.read(WORKERS) or {})["spec"]["replicas"] == 2
    assert operator.get_condition(MAIN, "ConnectReady") == (
        "False",
        "ConnectStarting",
        "0 of 2 workers are ready",
    )
    run_pods(operator)
    await operator.settle(MAIN)
    assert operator.get_condition(MAIN, "ConnectReady") == (
        "True", "ConnectAvailable", "Kafka Connect 4.3.1 answers, 2 of 2 workers are ready",
    )  # fmt: skip
    assert get_connect(operator) == {
        "url": "https://main-connect.shop.svc:8443",
        "ready": 2,
        "workers": "2/2",
        "version": "4.3.1",
        "plugins": ["io.debezium.connector.postgresql.PostgresConnector 3.7.0.Final"],
        "topics": {name: topics[name].topic_id for name in TOPICS},
    }


async def test_workers_that_are_ready_cost_no_write_and_are_looked_at_with_the_connection() -> None:
    operator = await settle(start())
    writes = operator.cluster.fuse.writes
    operator.clock.advance(5)
    assert (await operator.reconcile(MAIN)).requeue_after == 60
    assert operator.cluster.fuse.writes == writes


async def test_a_worker_that_is_gone_is_reported_and_the_cluster_stays_ready() -> None:
    operator = await settle(start())
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "said by Kafka"}}}
    run_pods(operator, ready=1, containerStatuses=[waiting])
    outcome = await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN, "ConnectReady") == (
        "False", "ConnectStarting", "1 of 2 workers are ready; main-connect-1: CrashLoopBackOff",
    )  # fmt: skip
    assert (operator.get_condition(MAIN)[0], outcome.requeue_after) == ("True", 5)
    assert get_connect(operator)["workers"] == "1/2"
    assert operator.list_events("ConnectStarting") == [
        "1 of 2 workers are ready; main-connect-1: CrashLoopBackOff"
    ]
    run_pods(operator)
    await operator.settle(MAIN)
    assert (
        operator.list_events("ConnectAvailable")[-1]
        == "Kafka Connect 4.3.1 answers, 2 of 2 workers are ready"
    )


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        ({"exitCode": 3, "reason": "Error"}, "the last one used up its memory; raise spec.connect.workers.resources.memory"),
        ({"exitCode": 137, "reason": "OOMKilled"}, "the last one used up its memory; raise"),
        ({"exitCode": 1, "reason": "Error"}, "the last one ended with Error (1)"),
    ],
    ids=["heap", "container", "else"],
)  # fmt: skip
async def test_the_end_of_a_worker_is_explained(ended: dict[str, Any], text: str) -> None:
    operator = await settle(start())
    crashed = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": ended}}
    run_pods(operator, ready=1, containerStatuses=[crashed])
    await operator.reconcile(MAIN)
    assert f"main-connect-1: CrashLoopBackOff, {text}" in operator.get_condition(MAIN, "ConnectReady")[2]


async def test_an_answer_that_fails_is_reported_with_its_reason() -> None:
    operator = await settle(start())
    operator.connect.trouble = ConnectUnreachable("GET /: no response (TimeoutError)")
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN, "ConnectReady")[1:] == (
        "ConnectUnavailable",
        "GET /: no response (TimeoutError)",
    )
    assert get_connect(operator)["failure"] == "GET /: no response (TimeoutError)"


async def test_kafka_that_does_not_answer_changes_no_worker() -> None:
    operator = await settle(start())
    before = operator.cluster.read(WORKERS)
    del operator.brokers["kafka:9092"].topics[TOPICS[0]]
    operator.brokers["kafka:9092"].trouble = BrokerUnreachable("gone")
    declare(operator, connect={"workers": {"replicas": 1}})
    await operator.reconcile(MAIN)
    assert operator.cluster.read(WORKERS) == before
    assert operator.get_condition(MAIN)[1] == "BrokerUnreachable"


@pytest.mark.parametrize(
    ("topic", "partitions", "configs", "words"),
    [
        (TOPICS[0], 3, {"cleanup.policy": "compact"}, "has 3 partitions and must have 1"),
        (TOPICS[1], 5, {"cleanup.policy": "delete"}, "has cleanup.policy=delete, which loses records"),
        (TOPICS[2], 3, {}, "has cleanup.policy=delete"),
    ],
)
async def test_no_worker_starts_on_a_topic_that_loses_what_it_keeps(
    topic: str, partitions: int, configs: dict[str, str], words: str
) -> None:
    operator = start()
    operator.brokers["kafka:9092"].add(topic, partitions, configs=configs)
    await operator.settle(MAIN)
    status, reason, message = operator.get_condition(MAIN, "ConnectReady")
    assert (status, reason) == ("False", "ConnectTopicUnsuitable")
    assert words in message
    assert operator.cluster.read(WORKERS) is None


@pytest.mark.parametrize("is_recreated", [False, True], ids=["gone", "empty"])
async def test_a_deleted_topic_is_reported_and_never_silently_created_again(is_recreated: bool) -> None:
    operator = await settle(start())
    broker = operator.brokers["kafka:9092"]
    del broker.topics[TOPICS[1]]
    if is_recreated:
        broker.add(TOPICS[1], 5, configs={"cleanup.policy": "compact"})
    await operator.settle(MAIN)
    assert operator.get_condition(MAIN, "ConnectReady")[1] == "ConnectTopicUnsuitable"
    assert (TOPICS[1] in broker.topics) == is_recreated


async def test_workers_are_removed_with_their_spec_and_come_back_with_their_topics() -> None:
    operator = await settle(start())
    cluster = operator.cluster
    cluster.patch(REF, spec={"connect": None})
    operator = await operator.settle(MAIN)
    assert cluster.read(WORKERS) is None
    assert "connect" not in (operator.get(MAIN) or {})["status"]
    assert operator.get_condition(MAIN, "ConnectReady") == ("", "", "")
    assert set(operator.brokers["kafka:9092"].topics) == set(TOPICS)
    declare(operator, connect={"workers": {}})
    operator = await settle(operator)
    assert operator.get_condition(MAIN, "ConnectReady")[0] == "True"


async def test_replicas_follow_the_spec_also_where_a_person_changed_them() -> None:
    operator = await settle(start())
    declare(operator, connect={"workers": {"replicas": 1}})
    operator = await settle(operator)
    assert get_connect(operator)["workers"] == "1/1"
    operator.cluster.patch(WORKERS, spec={"replicas": 7})
    operator = await settle(operator)
    assert (operator.cluster.read(WORKERS) or {})["spec"]["replicas"] == 1


async def test_a_budget_that_a_person_replaced_is_reverted() -> None:
    operator = await settle(start())
    budget = ObjectRef("policy/v1", "PodDisruptionBudget", "shop", "main-connect")
    before = operator.cluster.read(budget) or {}
    changed = {"annotations": {"kappa-platform.io/content": "mine"}}
    operator.cluster.patch(budget, metadata=changed, spec={"maxUnavailable": 5})
    operator.clock.advance(60)
    await settle(operator)
    assert (operator.cluster.read(budget) or {})["spec"] == before["spec"]


async def test_the_template_of_workers_changes_with_what_they_read_when_they_start_and_with_nothing_else() -> (
    None
):
    operator = start(**SECURE)
    put_log_in(operator)
    operator = await settle(operator)
    template = read_template(operator)
    declare(operator, **SECURE, checkInterval="2m", lag={"enabled": False})
    operator.cluster.put(build_secret("main-connect-sources", one_password="new"))
    operator = await settle(operator)
    assert read_template(operator) == template
    operator.cluster.put(build_secret("connect-login", username="connect", password="other"))
    operator = await settle(operator)
    second = read_template(operator)
    assert (
        second["metadata"]["annotations"][SECRETS_ANNOTATION]
        != template["metadata"]["annotations"][SECRETS_ANNOTATION]
    )
    operator.clock.advance(timedelta(days=70).total_seconds())
    operator = await settle(operator)
    assert read_template(operator) != second


async def test_no_secret_is_in_an_object_that_is_none() -> None:
    operator = start(**SECURE)
    put_log_in(operator)
    operator = await settle(operator)
    everything = json.dumps([operator.cluster.read(WORKERS), operator.get(MAIN)])
    secret = operator.cluster.read(REST) or {}
    hidden = [
        base64.b64decode(secret["data"][key]).decode() for key in ("password", "tls.key", "authority.key")
    ]
    assert not any(each.strip().splitlines()[0] in everything for each in ["hush-hush", *hidden])


async def test_a_log_in_that_its_secret_does_not_allow_starts_no_worker() -> None:
    operator = start(**SECURE)
    put_log_in(operator)
    ref = ObjectRef("v1", "Secret", "shop", "connect-login")
    operator.cluster.patch(ref, metadata={"annotations": {"secrets.kappa-platform.io/kafka": ""}})
    operator = await operator.settle(MAIN)
    status, reason, message = operator.get_condition(MAIN, "ConnectReady")
    assert (status, reason) == ("False", "SecretNotAllowed")
    assert "secrets.kappa-platform.io/kafka-connect=kafka:9092" in message
    assert operator.cluster.read(WORKERS) is None


async def test_a_stateful_set_of_another_owner_is_not_touched() -> None:
    operator = start()
    foreign = {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "main-connect", "namespace": "shop"},
        "spec": {"replicas": 9},
    }  # fmt: skip
    operator.cluster.put(foreign)
    await operator.settle(MAIN)
    status, reason, message = operator.get_condition(MAIN, "ConnectReady")
    assert (status, reason) == ("False", "NameTaken")
    assert "belongs to no Kappa resource" in message
    operator.cluster.patch(REF, spec={"connect": None})
    operator = await operator.settle(MAIN)
    assert (operator.cluster.read(WORKERS) or {})["spec"] == {"replicas": 9}
    assert "connect" not in (operator.get(MAIN) or {})["status"]


async def test_workers_are_restricted_pods_without_a_token_and_with_what_the_installation_adds() -> None:
    template = PodTemplate.model_validate({"spec": {"nodeSelector": {"disk": "fast"}}})
    operator = await start(Settings(pod_template=template, connect_image="mine:1")).settle(MAIN)
    spec = read_template(operator)["spec"]
    (container,) = spec["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (spec["nodeSelector"], container["image"]) == ({"disk": "fast"}, "mine:1")


PLACED = {
    "metadata": {"labels": {"team": "data"}, "annotations": {"example.com/owner": "data"}},
    "spec": {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "data", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"team": "data"}}}
        ],
    },
}  # fmt: skip


async def test_the_spec_places_workers_besides_the_chart() -> None:
    chart = PodTemplate.model_validate({"spec": {"nodeSelector": {"os": "linux"}}})
    settings = Settings(pod_template=chart, allowed_tolerations=("data",))
    operator = await start(settings).settle(MAIN)
    before = read_template(operator)
    declare(operator, connect={"workers": {"podTemplate": PLACED}})
    await operator.settle(MAIN)
    template = read_template(operator)
    spec, labels = template["spec"], template["metadata"]["labels"]
    assert spec["nodeSelector"] == {"os": "linux", "disk": "fast"}
    assert [each["key"] for each in spec["tolerations"]] == ["data"]
    assert [each["topologyKey"] for each in spec["topologySpreadConstraints"]] == ["zone"]
    assert (labels["team"], labels[CONNECT_LABEL]) == ("data", "main")
    assert template["metadata"]["annotations"].items() >= before["metadata"]["annotations"].items()
    assert spec["containers"] == before["spec"]["containers"]


async def test_a_place_that_the_installation_does_not_allow_leaves_the_workers_as_they_are() -> None:
    operator = await settle(start(Settings(allowed_tolerations=("gpu",))))
    before = read_template(operator)
    declare(operator, connect={"workers": {"podTemplate": PLACED}})
    await operator.settle(MAIN)
    assert read_template(operator) == before
    _, reason, message = operator.get_condition(MAIN, "ConnectReady")
    assert reason == "NotAllowed"
    assert "a toleration of data in a podTemplate; its chart allows pipelines.allowedTolerations" in message


async def test_only_the_operator_and_workers_reach_the_rest_api_and_workers_only_kafka() -> None:
    operator = await start().settle(MAIN)
    ref = ObjectRef("networking.k8s.io/v1", "NetworkPolicy", "shop", "main-connect")
    spec = (operator.cluster.read(ref) or {})["spec"]
    workers = {"podSelector": {"matchLabels": {CONNECT_LABEL: "main"}}}
    (rest,) = spec["ingress"]
    assert rest["ports"] == [{"protocol": "TCP", "port": 8443}]
    assert rest["from"][1:] == [workers]
    assert rest["from"][0]["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "kappa-operator"}}
    kafka = [rule for rule in spec["egress"] if {"protocol": "TCP", "port": 9092} in rule["ports"]]
    assert len(kafka) == 1
    assert {"to": [workers], "ports": [{"protocol": "TCP", "port": 8443}]} in spec["egress"]


async def test_the_key_stores_open_with_their_password_and_hold_the_certificate_of_the_operator() -> None:
    operator = await settle(start())
    data = (operator.cluster.read(REST) or {})["data"]
    content = {key: base64.b64decode(value) for key, value in data.items()}
    own = pkcs12.load_pkcs12(content["keystore.p12"], content["password"])
    trusted = pkcs12.load_pkcs12(content["truststore.p12"], content["password"])
    assert own.cert is not None
    assert own.cert.certificate.issuer == trusted.additional_certs[0].certificate.subject
    access = operator.connect.accesses[-1]
    assert (access.ca, access.certificate) == (content["ca.crt"].decode(), content["tls.crt"].decode())


async def test_a_secret_with_other_content_is_renewed() -> None:
    operator = await settle(start())
    operator.cluster.patch(REST, data={"keystore.p12": None})
    operator = await settle(operator)
    assert "keystore.p12" in (operator.cluster.read(REST) or {})["data"]


async def test_a_certificate_of_another_owner_is_not_used() -> None:
    first = await settle(start())
    prepared = first.cluster.read(REST) or {}
    operator = start()
    metadata = {"name": REST.name, "namespace": REST.namespace}
    operator.cluster.put({**prepared, "metadata": metadata})
    with pytest.raises(NameTaken):
        await operator.reconcile(MAIN)  # the rounds of one reconcile end here; the controller retries
    await operator.settle(MAIN)
    assert operator.get_condition(MAIN, "ConnectReady")[1] == "NameTaken"
    assert operator.cluster.read(WORKERS) is None


async def test_who_needs_kafka_connect_gets_its_access_when_it_answers_and_the_reason_before() -> None:
    operator = start()
    await operator.settle(MAIN)
    with pytest.raises(ReferenceProblem, match="0 of 2 workers are ready") as problem:
        await resolve_connect(operator.context, find_kind("KafkaCluster").parse(operator.get(MAIN) or {}))
    assert (problem.value.reason, problem.value.retryable) == ("ConnectNotReady", True)
    operator = await settle(operator)
    cluster = find_kind("KafkaCluster").parse(operator.get(MAIN) or {})
    access = await resolve_connect(operator.context, cluster)
    assert access.url == "https://main-connect.shop.svc:8443"
    assert access.key is not None
    assert access.key not in repr(access)


async def test_settings_of_workers_have_the_log_in_of_all_their_clients_without_its_password() -> None:
    operator = start(**SECURE)
    put_log_in(operator)
    operator = await operator.settle(MAIN)
    text = read_template(operator)["metadata"]["annotations"][SETTINGS_ANNOTATION]
    settings = dict(line.split("=", 1) for line in text.splitlines())
    for client in ("", "producer.", "consumer.", "admin."):
        assert settings[f"{client}security.protocol"] == "SASL_SSL"
        assert settings[f"{client}sasl.mechanism"] == "SCRAM-SHA-512"
    assert settings["exactly.once.source.support"] == "enabled"
    assert settings["listeners"] == "https://0.0.0.0:8443"
    assert settings["listeners.https.ssl.client.auth"] == "required"
    assert settings["group.id"] == "connect.shop.main"


async def test_the_name_of_a_server_adds_no_setting() -> None:
    operator = start(bootstrapServers=["kafka:9092", "x\nlisteners.https.ssl.client.auth=none\ny:9092"])
    operator.brokers[",".join(("kafka:9092", "x\nlisteners.https.ssl.client.auth=none\ny:9092"))] = (
        FakeBroker()
    )
    operator = await operator.settle(MAIN)
    lines = read_template(operator)["metadata"]["annotations"][SETTINGS_ANNOTATION].splitlines()
    assert [line for line in lines if "client.auth" in line and not line.startswith("bootstrap.")] == [
        "listeners.https.ssl.client.auth=required"
    ]


@pytest.mark.parametrize(
    ("connect", "uses"),
    [
        ({"workers": {"credentials": LOGIN}}, {("connect-login", "kafka-connect"), ("ca", "kafka")}),
        (
            {"existing": {"url": "https://c:8083", "credentialsSecretRef": {"name": "user"}}},
            {("user", "connect"), ("ca", "kafka")},
        ),
    ],
    ids=["workers", "existing"],
)
def test_the_secrets_of_kafka_connect_are_listed_with_their_use(
    connect: dict[str, Any], uses: set[tuple[str, str]]
) -> None:
    spec = {"bootstrapServers": ["kafka:9092"], "tls": {"caSecretRef": {"name": "ca"}}, "connect": connect}
    resource = find_kind("KafkaCluster").parse({"metadata": {"name": "main"}, "spec": spec})
    assert {(each.secret, each.purpose.uses[0]) for each in list_uses(resource)} == uses


EXISTING: dict[str, Any] = {"connect": {"existing": {"url": "https://connect.example.com:8083"}}}


async def test_an_existing_connect_is_called_only_where_the_installation_allows_its_host() -> None:
    operator = await start(**EXISTING).settle(MAIN)
    status, reason, message = operator.get_condition(MAIN, "ConnectReady")
    assert (status, reason) == ("False", "NotAllowed")
    assert "connect.existingHosts" in message
    assert operator.connect.accesses == []
    allowed = operator.restart(Settings(connect_hosts=("*.example.com",)))
    await allowed.settle(MAIN)
    assert allowed.get_condition(MAIN, "ConnectReady")[2] == "Kafka Connect 4.3.1 answers"
    assert get_connect(allowed)["url"] == "https://connect.example.com:8083"
    assert allowed.cluster.read(WORKERS) is None


async def test_plain_text_to_an_existing_connect_is_refused_by_default() -> None:
    existing = {"existing": {"url": "http://connect.example.com:8083"}}
    operator = await start(Settings(connect_hosts=("*",)), connect=existing).settle(MAIN)
    assert operator.get_condition(MAIN, "ConnectReady")[1] == "ClearTextCredentials"
    assert operator.connect.accesses == []


async def test_an_existing_connect_gets_what_its_secrets_allow() -> None:
    existing = {
        "url": "https://connect.example.com",
        "caSecretRef": {"name": "authority"},
        "credentialsSecretRef": {"name": "user"},
    }
    operator = start(Settings(connect_hosts=("*",)), connect={"existing": existing})
    operator.cluster.put(build_secret("authority", ca_crt="PEM"))
    operator.cluster.put(build_secret("user", username="ann", password="hush"))
    await operator.settle(MAIN)
    access = operator.connect.accesses[-1]
    assert (access.ca, access.username, access.password) == ("PEM", "ann", "hush")
    metadata = {"annotations": {"secrets.kappa-platform.io/connect": "other.example.com"}}
    operator.cluster.patch(ObjectRef("v1", "Secret", "shop", "user"), metadata=metadata)
    operator.clock.advance(60)
    await operator.reconcile(MAIN)
    assert operator.get_condition(MAIN, "ConnectReady")[1] == "SecretNotAllowed"


async def test_workers_give_way_to_an_existing_connect() -> None:
    operator = await settle(start(Settings(connect_hosts=("*",))))
    operator.cluster.patch(REF, spec={"connect": {"workers": None, **EXISTING["connect"]}})
    operator = await operator.settle(MAIN)
    assert operator.cluster.read(WORKERS) is None
    assert get_connect(operator)["url"] == "https://connect.example.com:8083"
