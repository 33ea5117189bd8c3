"""The NetworkPolicies of pods: which connections each rule admits, by the addresses that resources name."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.cluster import Body
from fakes.context import build_resource
from kappa_crds.kafkacluster import KafkaClusterSpec
from kappa_crds.revision import Revision
from kappa_crds.statestore import S3, Hdfs
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.network import Destination, Network, admit_destinations
from kappa_operator.pipeline.network import build_policies
from kappa_operator.pipeline.revision import build_revision
from kappa_operator.settings import Settings
from kappa_operator.statestore.network import build_worker_policy
from kappa_operator.statestore.storage import build_bucket_storage, build_hdfs_storage
from unit.control.lives import SPEC, Life
from unit.control.pipelines import DEPENDENCIES, IMAGES, ON_CLAIM, pipeline

PROMETHEUS = {"podSelector": {"matchLabels": {"app": "prometheus"}}}
NETWORK = Network("kappa-system", prometheus=(PROMETHEUS,), inside=("169.254.0.0/16", "10.244.0.0/16"))
ALONE, TWO = {"resources": {"executors": {"count": 0}}}, {"resources": {"executors": {"count": 2}}}
DNS = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
POLICY = "networking.k8s.io/v1"


def tcp(*ports: int) -> list[Body]:
    return [{"protocol": "TCP", "port": port} for port in ports]


def in_namespace(name: str) -> Body:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}


def of_pipeline(role: str) -> Body:
    labels = {"kappa-platform.io/pipeline": "delays", "kappa-platform.io/role": role}
    return {"podSelector": {"matchLabels": labels}}


def build(spec: dict[str, Any], servers: tuple[str, ...] = ("10.0.0.7:9093",), **more: Any) -> Revision:
    dependencies = replace(DEPENDENCIES, cluster=KafkaClusterSpec(bootstrap_servers=servers), **more)
    return build_revision(pipeline(spec), dependencies, IMAGES)


def build_rules(*revisions: Revision) -> dict[str, Body]:
    bodies = build_policies(pipeline(), revisions, NETWORK)
    return {body["metadata"]["name"]: body["spec"] for body in bodies}


def admit(*addresses: str, network: Network = NETWORK) -> list[Body]:
    return admit_destinations(network, "shop", map(Destination.parse, addresses))


def find_namespaces(rules: list[Body]) -> set[str]:
    peers = [peer for rule in rules for peer in rule.get("to", ())]
    selectors = [peer["namespaceSelector"]["matchLabels"] for peer in peers if "namespaceSelector" in peer]
    return {labels["kubernetes.io/metadata.name"] for labels in selectors}


def find_outside(rules: list[Body]) -> list[Body]:
    everything = "0.0.0.0/0"
    return [rule for rule in rules if any(p.get("ipBlock", {}).get("cidr") == everything for p in rule["to"])]


def test_a_driver_without_executors_is_reached_by_operator_and_prometheus_only() -> None:
    rules = build_rules(build(ALONE))
    assert set(rules) == {"delays-driver"}
    driver = rules["delays-driver"]
    operator = {**in_namespace("kappa-system"), "podSelector": {"matchLabels": {"app.kubernetes.io/name": "kappa-operator"}}}  # fmt: skip
    assert driver["ingress"] == [{"from": [operator, PROMETHEUS], "ports": tcp(8080, 8443)}]
    assert driver["policyTypes"] == ["Ingress", "Egress"]
    assert driver["podSelector"] == of_pipeline("driver")["podSelector"]


def test_a_driver_without_executors_reaches_dns_and_kafka_and_not_the_api_server() -> None:
    kafka = {"to": [{"ipBlock": {"cidr": "10.0.0.7/32"}}], "ports": tcp(9093)}
    assert build_rules(build(ALONE))["delays-driver"]["egress"] == [{"ports": DNS}, kafka]


def test_executors_reach_their_driver_and_each_other_and_no_api_server() -> None:
    rules = build_rules(build(TWO))
    driver, executor = rules["delays-driver"], rules["delays-executor"]
    assert {"from": [of_pipeline("executor")], "ports": tcp(7078, 7079)} in driver["ingress"]
    assert {"to": [of_pipeline("executor")], "ports": tcp(7079)} in driver["egress"]
    assert {"ports": tcp(443, 6443)} in driver["egress"]
    assert executor["ingress"] == [
        {"from": [of_pipeline("driver"), of_pipeline("executor")], "ports": tcp(7079)}
    ]
    assert executor["egress"] == [
        {"ports": DNS},
        {"to": [of_pipeline("driver")], "ports": tcp(7078, 7079)},
        {"to": [of_pipeline("executor")], "ports": tcp(7079)},
        {"to": [{"ipBlock": {"cidr": "10.0.0.7/32"}}], "ports": tcp(9093)},
    ]


def test_while_a_change_is_under_way_both_revisions_reach_what_they_need() -> None:
    rules = build_rules(build(ALONE, ("10.0.0.8:9092",)), build(TWO))
    assert set(rules) == {"delays-driver", "delays-executor"}
    blocks = [rule["to"][0].get("ipBlock", {}).get("cidr") for rule in rules["delays-driver"]["egress"] if "to" in rule]  # fmt: skip
    assert {"10.0.0.7/32", "10.0.0.8/32"} <= set(blocks)


def test_addresses_that_brokers_advertise_are_admitted_for_drivers_and_executors() -> None:
    advertised = ("10.0.0.8:9093", "b-2.example.com:9096")
    for body in build_policies(pipeline(), (build(TWO),), NETWORK, advertised):
        egress = body["spec"]["egress"]
        assert {"to": [{"ipBlock": {"cidr": "10.0.0.8/32"}}], "ports": tcp(9093)} in egress
        assert [rule["ports"] for rule in find_outside([rule for rule in egress if "to" in rule])] == [
            tcp(9096)
        ]


def test_only_drivers_reach_the_schema_registry() -> None:
    registry = {"url": "http://10.0.0.9:8081"}
    source = {"name": "events", "topic": "in", "format": {"avro": {"registry": registry}}}
    rules = build_rules(build({**TWO, "sources": [source]}))
    admitted = {"to": [{"ipBlock": {"cidr": "10.0.0.9/32"}}], "ports": tcp(8081)}
    assert admitted in rules["delays-driver"]["egress"]
    assert admitted not in rules["delays-executor"]["egress"]


@pytest.mark.parametrize(
    ("address", "namespaces"),
    [
        ("kafka:9092", {"shop"}),
        ("kafka.queues:9092", {"queues"}),
        ("kafka.queues.svc:9092", {"queues"}),
        ("broker-0.kafka.queues.svc:9092", {"queues"}),
        ("kafka.queues.svc.cluster.local:9092", {"queues"}),
        ("broker.example.com:9092", set()),
    ],
)
def test_a_name_of_a_service_admits_the_pods_of_its_namespace(address: str, namespaces: set[str]) -> None:
    rules = admit(address)
    assert find_namespaces(rules) == namespaces
    (outside,) = find_outside(rules)
    assert outside["ports"] == tcp(9092), "a Service may lead outside, too"


def test_what_is_outside_has_neither_pods_nor_the_metadata_of_a_cloud() -> None:
    (outside,) = find_outside(admit("broker.example.com:9092", "https://registry.example.com"))
    assert outside["ports"] == tcp(443, 9092)
    v4, v6 = (peer["ipBlock"] for peer in outside["to"])
    assert v4["except"] == ["169.254.0.0/16", "10.244.0.0/16"]
    assert "except" not in v6, "an address of version 4 is no part of it"


def test_the_order_of_servers_changes_no_policy() -> None:
    addresses = ("b.example.com:9092", "10.0.0.7:9092", "a.queues.svc:9094")
    assert admit(*addresses) == admit(*reversed(addresses))


def build_worker(*storages: Any) -> Body:
    body = build_worker_policy(pipeline(), "main-store", {"store": "main"}, storages, NETWORK)
    spec: Body = body["spec"]
    return spec


def test_nothing_connects_to_a_worker_and_one_on_a_pvc_connects_to_nothing() -> None:
    spec = build_worker(ON_CLAIM)
    assert (spec["ingress"], spec["egress"]) == ([], [])
    assert spec["policyTypes"] == ["Ingress", "Egress"]


def test_a_worker_reaches_both_stores_that_it_copies_between() -> None:
    bucket = build_bucket_storage("main", S3(bucket="state", endpoint="http://10.0.0.5:7070"))
    hdfs = build_hdfs_storage("other", Hdfs(namenode="10.0.0.6:8020", path="/kappa", user="kappa"))
    spec = build_worker(bucket, hdfs)
    admitted = {(rule["to"][0]["ipBlock"]["cidr"], rule["ports"][0]["port"]) for rule in spec["egress"] if "to" in rule}  # fmt: skip
    assert {
        ("10.0.0.5/32", 7070),
        ("10.0.0.6/32", 8020),
        ("10.0.0.6/32", 9870),
        ("10.0.0.6/32", 9864),
    } <= admitted
    assert {"ports": DNS} in spec["egress"]


def test_a_bucket_of_amazon_is_outside() -> None:
    spec = build_worker(build_bucket_storage("main", S3(bucket="state")))
    (outside,) = (rule for rule in spec["egress"] if "to" in rule)
    assert outside["ports"] == tcp(443)


def test_rules_of_the_installation_come_with_those_of_every_pod() -> None:
    more = {"to": [in_namespace("vault")]}
    network = replace(NETWORK, egress=(more,))
    (driver,) = build_policies(pipeline(), (build(ALONE),), network)
    worker = build_worker_policy(pipeline(), "main-store", {}, (ON_CLAIM,), network)
    assert driver["spec"]["egress"][-1] == more
    assert worker["spec"]["egress"] == [more]


@pytest.mark.parametrize("text", ["[", "[]", '{"unknown": []}', '{"dns": 53}'])
def test_values_that_cannot_be_read_are_an_error_that_names_the_variable(text: str) -> None:
    with pytest.raises(ValueError, match="KAPPA_NETWORK_POLICIES"):
        Network.parse(text, "kappa-system")


async def start(settings: Settings | None = None) -> list[Body]:
    """Start a driver; return the policies that there are."""
    life = Life()
    if settings is not None:
        life.operator = life.operator.restart(settings)
    await life.prepare()
    life.operator.cluster.put(build_resource("Pipeline", "delays", **SPEC))
    await life.settle()
    cluster = life.operator.cluster
    assert cluster.read(ObjectRef("v1", "Pod", "shop", "delays-driver-1")) is not None
    return cluster.find(POLICY, "NetworkPolicy")


async def test_the_policies_of_a_pipeline_are_removed_with_it() -> None:
    policies = await start()
    assert {body["metadata"]["name"] for body in policies} == {"delays-driver", "delays-executor"}
    for (owner,) in (body["metadata"]["ownerReferences"] for body in policies):
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Pipeline", "delays", True)


async def test_an_installation_without_policies_has_none() -> None:
    assert await start(Settings()) == []
