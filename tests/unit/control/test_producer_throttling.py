"""Producers that obey get a quota while it is critical, and their own back: when all is well, in the end, and when the policy goes."""

import random
from typing import Any

import pytest

import effort
from fakes.context import build_resource
from fakes.kafka import FakeBroker
from kappa_crds import API_VERSION
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import AuthorizationFailed, BrokerUnreachable
from kappa_operator.kafka.model import Producer
from unit.control.lag_shop import BASE, CLUSTER, POLICY, Shop

LOADER, ETL = Producer(client_id="loader"), Producer(user="etl")
PAUSE: dict[str, Any] = {
    **BASE,
    "critical": {"lag": "5m", "for": "30s"},
    "remediation": {"throttleProducers": {"producers": [{"clientId": "loader"}, {"user": "etl"}]}},
}
POLICY_REF = ObjectRef(API_VERSION, *POLICY)


def ask(**pause: Any) -> dict[str, Any]:
    return {
        **PAUSE,
        "remediation": {"throttleProducers": {**PAUSE["remediation"]["throttleProducers"], **pause}},
    }


def get_broker(shop: Shop) -> FakeBroker:
    return shop.operator.brokers["kafka:9092"]


async def open_shop(spec: dict[str, Any] = PAUSE) -> Shop:
    """Return a pipeline that takes 100 records a second; one producer has a quota already."""
    shop = Shop(spec)
    get_broker(shop).quotas[ETL] = 5e6
    await shop.operator.reconcile(CLUSTER)
    return shop


async def worsen(shop: Shop, seconds: float = 400) -> Shop:
    await shop.run(seconds, 100, behind=600)
    return shop


async def mend(shop: Shop, seconds: float) -> Shop:
    shop.each = 1000.0
    await shop.run(seconds, 100)
    return shop


async def stay_behind() -> Shop:
    shop = await open_shop()
    shop.each = 50.0
    return await worsen(shop)


async def test_while_it_is_critical_they_are_slowed_down_and_afterwards_they_have_what_they_had() -> None:
    shop = await stay_behind()
    assert get_broker(shop).quotas == {LOADER: 1024.0, ETL: 1024.0}
    assert [(each["target"], each["original"], each["result"]) for each in shop.remediation] == [
        ("client-id=loader", "none", "Done"),
        ("user=etl", "5000000", "Done"),
    ]
    await mend(shop, 300)
    assert get_broker(shop).quotas == {LOADER: 1024.0, ETL: 1024.0}, "quietFor"
    await mend(shop, 400)
    assert get_broker(shop).quotas == {ETL: 5e6}
    assert len(shop.operator.list_events("ProducerThrottled")) == 2
    assert [each.partition(": ")[2] for each in shop.operator.list_events("ProducerReleased")] == [
        "all groups were healthy for 5m"
    ] * 2


async def test_they_are_left_alone_while_it_is_no_more_than_a_warning() -> None:
    shop = await open_shop()
    shop.each = 50.0
    await shop.run(600, 100, behind=120)
    assert get_broker(shop).quotas == {ETL: 5e6}


async def test_one_that_has_a_smaller_quota_keeps_it() -> None:
    shop = await open_shop()
    get_broker(shop).quotas[ETL] = 100.0
    shop.each = 50.0
    await worsen(shop)
    assert get_broker(shop).quotas == {LOADER: 1024.0, ETL: 100.0}


async def test_throttling_has_an_end_and_restarts_only_after_a_healthy_time() -> None:
    shop = await open_shop(ask(atMost="10m"))
    shop.each = 50.0
    await worsen(shop, 4000)
    assert get_broker(shop).quotas == {ETL: 5e6}
    assert len(shop.operator.list_events("ProducerThrottled")) == 2
    assert all("as long as it may be" in each for each in shop.operator.list_events("ProducerReleased"))
    await mend(shop, 1000)
    shop.each = 50.0
    await worsen(shop)
    assert get_broker(shop).quotas == {LOADER: 1024.0, ETL: 1024.0}


async def test_a_quota_that_a_user_sets_meanwhile_is_kept() -> None:
    shop = await stay_behind()
    get_broker(shop).quotas[LOADER] = 77.0
    await mend(shop, 700)
    assert get_broker(shop).quotas == {LOADER: 77.0, ETL: 5e6}
    assert shop.remediation[0]["message"] == "its quota is 77 now, set by someone else, and is kept"


@pytest.mark.parametrize("seed", range(3))
async def test_twenty_minutes_of_noise_around_the_bound_do_not_make_it_flap(seed: int) -> None:
    shop, dice = await stay_behind(), random.Random(seed)
    for _ in range(120):
        await shop.run(10, 100, behind=300 * (1 + 0.6 * dice.uniform(-1, 1)))
    assert len(shop.operator.list_events("ProducerThrottled")) == 2
    assert len(shop.operator.list_events("ProducerReleased")) == 0


async def test_an_end_that_was_too_soon_is_followed_by_a_longer_pause() -> None:
    shop = await stay_behind()
    lengths = []
    for _ in range(4):
        began = shop.operator.clock.time
        shop.each = 1000.0
        while get_broker(shop).quotas != {ETL: 5e6}:
            await shop.run(10, 100)
        lengths.append(round((shop.operator.clock.time - began).total_seconds()))
        shop.each = 50.0
        while get_broker(shop).quotas == {ETL: 5e6}:
            await shop.run(10, 100, behind=600)
    assert lengths == sorted(lengths)
    assert lengths[-1] > 2 * lengths[0]


async def test_what_is_held_goes_back_when_the_policy_does_not_name_it_any_more() -> None:
    shop = await stay_behind()
    body = shop.operator.get(POLICY) or {}
    body["spec"]["remediation"]["throttleProducers"]["producers"] = [{"clientId": "loader"}]
    shop.operator.cluster.put(body)
    await worsen(shop, 60)
    assert get_broker(shop).quotas == {LOADER: 1024.0, ETL: 5e6}
    body = shop.operator.get(POLICY) or {}
    del body["spec"]["remediation"]
    shop.operator.cluster.put(body)
    await worsen(shop, 60)
    assert get_broker(shop).quotas == {ETL: 5e6}
    assert (shop.operator.get(POLICY) or {})["metadata"]["finalizers"] == []


async def test_what_is_held_goes_back_before_a_policy_that_is_deleted_goes() -> None:
    shop = await stay_behind()
    shop.operator.cluster.remove(POLICY_REF)
    shop.operator = await shop.operator.settle(POLICY)
    assert get_broker(shop).quotas == {ETL: 5e6}
    assert shop.operator.get(POLICY) is None


async def test_a_deletion_without_kafka_is_reported_and_continues_later() -> None:
    shop = await stay_behind()
    get_broker(shop).quota_trouble = BrokerUnreachable("kafka:9092: Connection refused")
    shop.operator.cluster.remove(POLICY_REF)
    for _ in range(3):
        await shop.operator.reconcile(POLICY)
    status, reason, message = shop.operator.get_condition(POLICY)
    assert (status, reason) == ("False", "DeletionBlocked")
    assert "Connection refused; fix that, or restore the quota of client-id=loader (none)" in message
    get_broker(shop).quota_trouble = None
    shop.operator = await shop.operator.settle(POLICY)
    assert get_broker(shop).quotas == {ETL: 5e6}
    assert shop.operator.get(POLICY) is None


async def test_a_policy_without_its_kafkacluster_is_deleted_and_reports_what_stays() -> None:
    shop = await stay_behind()
    shop.operator.cluster.remove(ObjectRef(API_VERSION, *CLUSTER))
    shop.operator.kafka.release(CLUSTER)
    shop.operator.cluster.remove(POLICY_REF)
    shop.operator = await shop.operator.settle(POLICY)
    assert shop.operator.get(POLICY) is None
    assert any(
        "its quota was 5000000 before" in each for each in shop.operator.list_events("RemediationRefused")
    )


async def test_a_user_without_permissions_gets_one_message() -> None:
    shop = await open_shop()
    get_broker(shop).quota_trouble = AuthorizationFailed("ClusterAuthorizationFailed", retryable=False)
    shop.each = 50.0
    await worsen(shop)
    assert {each["result"] for each in shop.remediation} == {"Refused"}
    assert len(shop.operator.list_events("RemediationRefused")) == 2


async def test_a_policy_without_the_remediation_has_no_finalizer() -> None:
    shop = await open_shop(BASE)
    await shop.run(60, 1)
    assert "finalizers" not in (shop.operator.get(POLICY) or {})["metadata"]


async def test_two_policies_with_one_group_throttle_no_producer() -> None:
    shop = await open_shop()
    shop.operator.cluster.put(build_resource("LagPolicy", "other", **PAUSE))
    shop.each = 50.0
    await worsen(shop)
    assert get_broker(shop).quotas == {ETL: 5e6}


async def live(death: int | None, *, deleted: bool) -> tuple[Any, int]:
    """Return how it is amid the pause and at the end, and the writes until then."""
    shop = await open_shop()
    await shop.run(100, 80)
    fuse = shop.operator.cluster.fuse
    fuse.die_after(death)
    writes = fuse.writes
    shop.each = 50.0
    await worsen(shop, 300)
    amid = dict(get_broker(shop).quotas)
    if deleted:
        shop.operator.cluster.remove(POLICY_REF)
        shop.operator = await shop.operator.settle(POLICY)
    else:
        await mend(shop, 500)
    kept = [
        (each["target"], each["result"], each["wanted"], each.get("original")) for each in shop.remediation
    ]
    is_gone = shop.operator.get(POLICY) is None
    return (amid, dict(get_broker(shop).quotas), kept, is_gone), shop.operator.cluster.fuse.writes - writes


@pytest.mark.parametrize("deleted", [False, True])
async def test_dying_after_any_write_forgets_no_quota(deleted: bool) -> None:
    wanted, writes = await live(None, deleted=deleted)
    assert wanted[:2] == ({LOADER: 1024.0, ETL: 1024.0}, {ETL: 5e6})
    assert writes >= 8
    for number in effort.deaths(writes):
        end, _ = await live(number, deleted=deleted)
        assert end == wanted, f"died after write {number} of {writes}"


@pytest.mark.parametrize(
    "producer", [LOADER, ETL, Producer("loader", "etl"), Producer(user="CN=etl,OU=a b"), Producer("a=b")]
)
def test_a_producer_is_read_back_as_it_was_written(producer: Producer) -> None:
    assert Producer.parse(str(producer)) == producer
