"""Each pipeline has a user of its own in Kafka with just the permissions that it needs, where its KafkaCluster has pipelineUsers."""

import base64
from typing import Any

import pytest

import effort
from fakes.context import build_resource, build_secret
from fakes.kafka import FakeBroker
from kappa_crds import API_VERSION
from kappa_crds.inputs import InputTopic, TopicMove
from kappa_crds.permissions import find_prefix
from kappa_crds.pipeline_status import Run, RunRole
from kappa_operator.consent import PREFIX
from kappa_operator.engine.actions import DeleteUser, GrantPermissions, KafkaAction, RevokePermissions
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import AuthorizationFailed, BrokerUnreachable, KafkaFailure, KafkaRefused
from kappa_operator.kafka.model import Acl
from kappa_operator.pipeline.objects import DRIVER_ROLE, PipelineResource
from kappa_operator.pipeline.user import list_needs
from unit.control.lives import CLUSTER, PIPELINE, SPEC, Life, Step, delete, write

LOG_IN = {"credentialsSecretRef": {"name": "login"}}
ALLOWED = {"kafka-operator": "*", "kafka-users": "kafka:9092", "kafka-users-topics": "in,out,mor*"}
GROUP = "kappa.shop.delays"
READ, WRITE = Acl("Topic", "in", "Literal", "Read"), Acl("Topic", "out", "Literal", "Write")
NEEDED = {
    READ,
    WRITE,
    Acl("Topic", "out", "Literal", "DescribeConfigs"),
    Acl("Group", GROUP, "Literal", "Read"),
}
EXACTLY = {
    **SPEC,
    "sinks": [{"name": "log", "from": "events", "kafka": {"topic": "out", "delivery": "ExactlyOnce"}}],
}
OTHER = {**SPEC, "sinks": [{"name": "log", "from": "events", "kafka": {"topic": "more"}}]}
OTHER_WRITE = Acl("Topic", "more", "Literal", "Write")
UNREACHABLE = BrokerUnreachable("kafka:9092: Connection refused")


def put_log_in(life: Life, **annotations: str) -> None:
    life.operator.cluster.remove(ObjectRef("v1", "Secret", "shop", "login"))
    secret = build_secret("login", username="operator", password="o")
    secret["metadata"]["annotations"] = {
        PREFIX + use: hosts for use, hosts in (ALLOWED | annotations).items()
    }
    life.operator.cluster.put(secret)


def put_cluster(**users: Any) -> Step:
    def step(life: Life) -> None:
        spec: dict[str, Any] = {"bootstrapServers": ["kafka:9092"], "sasl": LOG_IN, "pipelineUsers": users}
        life.operator.cluster.put(build_resource("KafkaCluster", "main", **spec))

    return step


async def prepare() -> Life:
    life = Life()
    await life.prepare()
    put_log_in(life)
    get_broker(life).add("more")
    put_cluster()(life)
    await life.operator.reconcile(CLUSTER)
    return life


async def start(spec: dict[str, Any] = SPEC) -> Life:
    life = await prepare()
    write(spec)(life)
    await life.settle()
    return life


def get_broker(life: Life) -> FakeBroker:
    return life.operator.brokers["kafka:9092"]


def get_user(life: Life, rotation: str = "") -> str:
    body = life.operator.get(PIPELINE)
    assert body is not None
    return f"kappa.shop.delays.{body['metadata']['uid']}{rotation}"


def find_secrets(life: Life) -> dict[str, dict[str, str]]:
    """Return the contents of the Secrets with passwords, by the user in them."""
    bodies = life.operator.cluster.find("v1", "Secret", "shop")
    contents = [
        {key: base64.b64decode(value).decode() for key, value in body.get("data", {}).items()}
        for body in bodies
    ]
    return {each["username"]: each for each in contents if each.get("username", "operator") != "operator"}


def find_pods(life: Life) -> list[Any]:
    return life.operator.cluster.find("v1", "Pod", "shop", DRIVER_ROLE)


def mounted_users(life: Life) -> set[str]:
    """Return the users whose Secrets drivers mount that have not ended."""
    alive = [pod for pod in find_pods(life) if pod["status"]["phase"] == "Running"]
    names = {
        each["secret"]["secretName"] for pod in alive for each in pod["spec"]["volumes"] if "secret" in each
    }
    bodies = life.operator.cluster.find("v1", "Secret", "shop")
    contents = [body["data"] for body in bodies if body["metadata"]["name"] in names]
    return {base64.b64decode(each["username"]).decode() for each in contents if "username" in each}


def list_user_actions(life: Life) -> list[KafkaAction]:
    kinds = (GrantPermissions, RevokePermissions, DeleteUser)
    return [each for each in life.operator.kafka.actions if isinstance(each, kinds)]


async def test_a_driver_starts_with_a_user_that_may_do_just_what_its_spec_needs() -> None:
    life = await start()
    broker, user = get_broker(life), get_user(life)
    assert life.operator.get_condition(PIPELINE)[1] == "Running"
    (secret,) = find_secrets(life).values()
    assert broker.users == {user: ("SCRAM-SHA-512", secret["password"])}
    assert secret["username"] == user
    assert broker.acls == {user: NEEDED}


async def test_a_driver_mounts_the_secret_of_its_user_and_not_that_of_the_operator() -> None:
    life = await start()
    (pod,) = find_pods(life)
    mounted = {each["secret"]["secretName"] for each in pod["spec"]["volumes"] if "secret" in each}
    (owned,) = (
        body for body in life.operator.cluster.find("v1", "Secret", "shop") if "username" in body["data"] and body["metadata"]["name"] != "login"
    )  # fmt: skip
    assert owned["metadata"]["name"] in mounted
    assert "login" not in mounted
    assert (
        owned["metadata"]["ownerReferences"][0]["uid"]
        == (life.operator.get(PIPELINE) or {})["metadata"]["uid"]
    )


async def test_exactly_once_adds_markers_and_transactions_of_the_sink() -> None:
    life = await start(EXACTLY)
    user = get_user(life)
    group = f"{GROUP}.{user.rpartition('.')[2]}.log"
    assert get_broker(life).acls[user] - NEEDED == {
        Acl("Topic", "out", "Literal", "Read"),
        Acl("Group", group, "Literal", "Read"),
        Acl("TransactionalId", f"{group}.", "Prefixed", "Write"),
    }


async def test_beside_a_shadow_run_the_user_may_write_both_versions_and_read_them_for_a_comparison() -> None:
    life = await start(EXACTLY)
    resource = PipelineResource.model_validate(life.operator.get(PIPELINE))
    group = f"{GROUP}.{resource.metadata.uid}.log"
    topics = {"in": "in", "out": "out"}

    def list_acls(active: int, *shadows: int) -> set[Acl]:
        runs = [
            Run(role=RunRole.ACTIVE, outputs=active),
            *(Run(role=RunRole.SHADOW, outputs=each) for each in shadows),
        ]
        status = resource.status.replace(runs=tuple(runs))
        return set(map(Acl.of, list_needs(resource.replace(status=status), topics)))

    def list_own(topic: str, group: str) -> set[Acl]:
        operations = [Acl("Topic", topic, "Literal", each) for each in ("Read", "Write", "DescribeConfigs")]
        return {
            *operations,
            Acl("Group", group, "Literal", "Read"),
            Acl("TransactionalId", f"{group}.", "Prefixed", "Write"),
        }

    common = {READ, Acl("Group", GROUP, "Literal", "Read")}
    assert list_acls(0) == common | list_own("out", group)
    assert list_acls(2) == common | list_own("out.r2", f"{group}.r2")
    assert list_acls(0, 2) == list_acls(0) | list_acls(2)
    beside = set(map(Acl.of, list_needs(_put_side(life, SPEC), topics)))
    assert {Acl("Topic", name, "Literal", "Read") for name in ("out", "out.r1")} <= beside


async def test_a_source_that_moved_to_another_version_may_read_both() -> None:
    life = await start()
    resource = PipelineResource.model_validate(life.operator.get(PIPELINE))
    move = TopicMove(old="in", new="in.r1", until={"0": 1}, begin={"0": 2}, reprocessing="fixed")
    status = resource.status.replace(inputs=(InputTopic(name="in", topic="in.r1", move=move),))
    needs = set(map(Acl.of, list_needs(resource.replace(status=status), {"in": "in", "out": "out"})))
    assert {Acl("Topic", name, "Literal", "Read") for name in ("in", "in.r1")} <= needs


def _put_side(life: Life, spec: dict[str, Any]) -> PipelineResource:
    """Return the pipeline with another spec and a shadow run."""
    body = life.operator.get(PIPELINE) or {}
    resource = PipelineResource.model_validate({**body, "spec": spec})
    runs = (*resource.status.runs, Run(role=RunRole.SHADOW, outputs=1))
    return resource.replace(status=resource.status.replace(runs=runs))


async def test_permissions_follow_a_change_and_are_the_union_until_it_is_done() -> None:
    life = await start()
    write(OTHER)(life)
    await life.settle()
    first, second, last = list_user_actions(life)
    assert isinstance(first, GrantPermissions)
    assert isinstance(second, GrantPermissions)
    assert OTHER_WRITE in second.acls
    assert isinstance(last, RevokePermissions)
    assert WRITE in last.acls
    acls = get_broker(life).acls[get_user(life)]
    assert (OTHER_WRITE in acls, WRITE in acls) == (True, False)
    assert len(find_pods(life)) == 2  # that of the previous driver, which has ended, stays


async def test_a_new_rotation_replaces_the_user_and_its_password() -> None:
    life = await start()
    before = get_broker(life).users[get_user(life)]
    put_cluster(rotation="2")(life)
    await life.operator.reconcile(CLUSTER)
    await life.settle()
    (user,) = get_broker(life).users
    assert user == get_user(life, ".2")
    assert set(get_broker(life).acls) == {user}
    assert user in mounted_users(life)
    assert get_broker(life).users[user] != before
    assert life.operator.get_condition(PIPELINE)[1] == "Running"


async def test_a_deleted_pipeline_leaves_no_user_and_no_acl() -> None:
    life = await start()
    delete(life)
    await life.settle()
    assert life.operator.get(PIPELINE) is None
    assert (get_broker(life).users, get_broker(life).acls, find_secrets(life)) == ({}, {}, {})


async def test_a_foreign_user_of_the_name_is_neither_changed_nor_deleted() -> None:
    life = await start({**SPEC, "suspend": True})
    broker, user = get_broker(life), get_user(life)
    broker.users[user], broker.acls[user] = ("SCRAM-SHA-512", "foreign"), frozenset({OTHER_WRITE})
    write(SPEC)(life)
    await life.settle()
    assert life.operator.get_condition(PIPELINE)[1] == "NameTaken"
    assert not find_pods(life)
    delete(life)
    await life.settle()
    assert life.operator.get(PIPELINE) is None
    assert broker.users == {user: ("SCRAM-SHA-512", "foreign")}
    assert broker.acls == {user: {OTHER_WRITE}}


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (AuthorizationFailed("needs Alter on the cluster", retryable=False), "AuthorizationFailed"),
        (KafkaRefused("no authorizer", code="SECURITY_DISABLED", reason=None), "KafkaError"),
    ],
)
async def test_no_driver_starts_without_its_user(trouble: KafkaFailure, reason: str) -> None:
    life = await prepare()
    get_broker(life).user_trouble = trouble
    write(SPEC)(life)
    await life.settle()
    assert life.operator.get_condition(PIPELINE)[1:] == (reason, trouble.message)
    assert not find_pods(life)
    get_broker(life).user_trouble = None
    life.operator.clock.advance(60)
    await life.settle()
    assert life.operator.get_condition(PIPELINE)[1] == "Running"


class ReadableBroker(FakeBroker):
    """A broker that lets the operator read users, and not change them."""

    def put_user(self, user: str, mechanism: str, password: str) -> None:
        """Refuse."""
        raise AuthorizationFailed("needs Alter on the cluster", retryable=False)


async def test_a_refused_change_is_reported_by_the_first_reconcile() -> None:
    life = await prepare()
    broker = ReadableBroker()
    broker.topics = get_broker(life).topics
    life.operator.brokers["kafka:9092"] = broker
    write(SPEC)(life)
    await life.operator.reconcile(PIPELINE)
    assert life.operator.get_condition(PIPELINE)[1:] == ("AuthorizationFailed", "needs Alter on the cluster")
    assert not find_pods(life)


async def test_a_running_driver_continues_while_its_permissions_cannot_be_changed() -> None:
    life = await start()
    get_broker(life).user_trouble = AuthorizationFailed("needs Alter on the cluster", retryable=False)
    write(OTHER)(life)
    await life.settle()
    status, reason, message = life.operator.get_condition(PIPELINE)
    assert (status, reason) == ("True", "Running")
    assert "needs Alter on the cluster" in message
    assert len(find_pods(life)) == 1


@pytest.mark.parametrize(
    ("missing", "proposed"),
    [
        ({"kafka-users": ""}, "kafka-users=kafka:9092"),
        ({"kafka-users-topics": "in"}, "kafka-users-topics=in,out"),
    ],
)
async def test_the_log_in_of_the_operator_must_allow_users_and_their_topics(
    missing: Any, proposed: str
) -> None:
    life = await prepare()
    put_log_in(life, **missing)
    write(SPEC)(life)
    await life.settle()
    _, reason, message = life.operator.get_condition(PIPELINE)
    assert reason == "SecretNotAllowed"
    assert PREFIX + proposed in message
    assert not get_broker(life).users


async def test_a_deletion_waits_for_a_broker_that_is_away_only_until_its_cluster_takes_over() -> None:
    life = await start()
    broker, user = get_broker(life), get_user(life)
    broker.trouble = UNREACHABLE
    delete(life)
    await life.settle()
    assert life.operator.get_condition(PIPELINE)[1] == "KafkaUserRemains"
    await life.operator.reconcile(CLUSTER)
    assert list_orphans(life) == []
    life.operator.clock.advance(601)
    await life.operator.reconcile(CLUSTER)
    assert list_orphans(life) == [user]
    await life.settle()
    assert life.operator.get(PIPELINE) is None
    broker.trouble = None
    life.operator = life.operator.restart()
    await life.operator.reconcile(CLUSTER)
    assert (list_orphans(life), broker.users, broker.acls) == ([], {}, {})


@pytest.mark.parametrize("trouble", ["trouble", "user_trouble"])
async def test_a_cluster_that_can_list_no_more_users_holds_no_deletion(trouble: str) -> None:
    life = await start()
    life.operator.cluster.patch(
        ObjectRef(API_VERSION, *CLUSTER),
        status={"orphanedUsers": [f"kappa.shop.other.{n}" for n in range(100)]},
    )
    setattr(get_broker(life), trouble, UNREACHABLE)
    user = get_user(life)
    delete(life)
    await life.settle()
    assert life.operator.get(PIPELINE) is None
    (note,) = life.operator.list_events("KafkaUserRemains")
    assert f"User:{user}" in note


async def test_a_full_list_does_not_prevent_that_a_user_is_deleted() -> None:
    life = await start()
    life.operator.cluster.patch(
        ObjectRef(API_VERSION, *CLUSTER),
        status={"orphanedUsers": [f"kappa.shop.other.{n}" for n in range(100)]},
    )
    delete(life)
    await life.settle()
    assert (life.operator.get(PIPELINE), get_broker(life).users) == (None, {})


def list_orphans(life: Life) -> list[str]:
    body = life.operator.get(CLUSTER) or {}
    listed: list[str] = body["status"].get("orphanedUsers", [])
    return listed


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_deletion_without_its_cluster_names_the_user_that_stays(restarts: bool) -> None:
    """The operator has a client of the cluster, and the broker is away; or it has none any more."""
    life = await start()
    user = get_user(life)
    get_broker(life).trouble = UNREACHABLE
    if restarts:
        life.operator = life.operator.restart()
        life.node.watch()
    life.operator.cluster.remove(ObjectRef(API_VERSION, "KafkaCluster", "shop", "main"))
    delete(life)
    await life.settle()
    assert life.operator.get(PIPELINE) is None
    (note,) = life.operator.list_events("KafkaUserRemains")
    assert f"User:{user}" in note


async def test_a_namespace_whose_cluster_is_deleted_first_leaves_no_user() -> None:
    life = await start()
    life.operator.cluster.remove(ObjectRef(API_VERSION, "KafkaCluster", "shop", "main"))
    await life.operator.reconcile(CLUSTER)
    delete(life)
    await life.settle()
    assert (life.operator.get(PIPELINE), get_broker(life).users) == (None, {})


async def test_a_user_that_was_deleted_by_hand_is_created_again_before_the_next_start() -> None:
    life = await start()
    broker = get_broker(life)
    broker.users.clear()
    broker.acls.clear()
    for pod in find_pods(life):
        life.operator.cluster.remove(ObjectRef.of(pod))
    life.node.step()
    await life.settle()
    assert list(broker.users) == [get_user(life)]
    assert broker.acls == {get_user(life): NEEDED}


ROTATED = put_cluster(rotation="2")
LIVES: dict[str, tuple[Step, ...]] = {
    "creating": (write(SPEC),),
    "changing": (write(SPEC), write(OTHER)),
    "changing, cold": (write(SPEC), write({**OTHER, "upgrade": {"handover": "Cold"}})),
    "rotating": (write(SPEC), ROTATED),
    "deleting": (write(SPEC), delete),
}


async def live(steps: tuple[Step, ...], die_after: int | None) -> tuple[Any, int]:
    life, before = await prepare(), 0
    for step in steps:
        before = life.operator.cluster.fuse.writes
        if step is steps[-1]:
            life.operator.cluster.fuse.die_after(die_after)
        step(life)
        if step is ROTATED:
            await life.operator.settle(CLUSTER)
        await life.settle()
    broker = get_broker(life)
    return {
        "users": len(broker.users),
        "acls": sorted(acl for acls in broker.acls.values() for acl in acls),
        "recorded": len(((life.operator.get(PIPELINE) or {}).get("status") or {}).get("kafkaUsers") or ()),
        "matching": all(
            find_secrets(life)[each]["password"] == known for each, (_, known) in broker.users.items()
        ),
        "mounted": mounted_users(life) == set(broker.users),
        "state": life.operator.get_condition(PIPELINE)[1],
        "alive": life.node.count_alive(),
    }, life.operator.cluster.fuse.writes - before


@pytest.mark.parametrize("name", LIVES)
async def test_dying_after_any_write_leaves_the_same_users(name: str) -> None:
    wanted, writes = await live(LIVES[name], None)
    assert wanted["matching"]
    assert wanted["mounted"]
    for number in effort.deaths(writes):
        end, _ = await live(LIVES[name], number)
        assert end == wanted, f"died after write {number} of {writes}"


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("flights-.*", "flights-"), ("shop[.](orders|returns)", "shop."), ("shop.orders", "shop"), ("orders", "orders"),
        ("a|secret", ""), (".*", ""), ("ab*", "a"), ("ab+c", "a"), ("shop[.]*", "shop"), ("(a|b)c", ""), ("[ab]c", ""),
    ],
)  # fmt: skip
def test_a_pattern_is_granted_by_the_text_that_all_of_its_topics_begin_with(
    pattern: str, prefix: str
) -> None:
    assert find_prefix(pattern) == prefix


@pytest.mark.parametrize(
    ("pattern", "reason"), [("mor.*", "Running"), ("mo.*", "SecretNotAllowed"), (".*e", "PatternTooWide")]
)
async def test_a_pattern_of_topics_must_have_a_beginning_that_is_allowed(pattern: str, reason: str) -> None:
    source = {"name": "events", "topicPattern": pattern, "format": {"json": {"schema": "k STRING"}}}
    life = await start({**SPEC, "sources": [source]})
    assert life.operator.get_condition(PIPELINE)[1] == reason
    granted = {acl for acls in get_broker(life).acls.values() for acl in acls if acl.pattern == "Prefixed"}
    assert granted == ({Acl("Topic", "mor", "Prefixed", "Read")} if reason == "Running" else set())
