"""What a LagPolicy's webhook is told: each change, in order, at least once, with an id; tried again, and given up in the end."""

import itertools
import json
from typing import Any

import pytest

import effort
from fakes.context import build_secret
from kappa_operator.engine.keys import ObjectRef
from unit.control.lag_shop import BASE, POLICY, Shop

TELL: dict[str, Any] = {
    **BASE,
    "critical": {"lag": "5m", "for": "30s"},
    "remediation": {"webhook": {"url": "https://hooks.example.com/lag?code=hidden"}},
}


def ask(**webhook: Any) -> dict[str, Any]:
    return {**TELL, "remediation": {"webhook": {**TELL["remediation"]["webhook"], **webhook}}}


async def rise_and_fall(shop: Shop) -> Shop:
    """Let it get worse, critical, and well again."""
    await shop.run(60, 10)
    await shop.run(200, 10, behind=100)
    shop.each = 1.0
    await shop.run(300, 10, behind=100)
    await shop.run(300, 10, behind=600)
    shop.each = 1000.0
    await shop.run(300, 10)
    return shop


def list_told(shop: Shop) -> list[tuple[str, str]]:
    """Return what was told, in order, each once."""
    found = {call.id: call.document for call in shop.operator.webhooks.calls}
    return [(each["before"], each["severity"]) for each in found.values()]


def get_notifications(shop: Shop) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (shop.operator.get(POLICY) or {})["status"].get("notifications", [])
    return found


async def test_it_is_notified_of_worse_and_of_healthy_states() -> None:
    shop = await rise_and_fall(Shop(TELL))
    assert list_told(shop) == [("None", "Warning"), ("Warning", "Critical"), ("Critical", "None")]
    (last,) = get_notifications(shop)
    assert (last["result"], last["attempts"], last["severity"]) == ("Delivered", 1, "None")
    assert len(shop.operator.list_events("WebhookDelivered")) == 3


async def test_the_document_has_its_object_and_cause() -> None:
    shop = await rise_and_fall(Shop(TELL))
    document = dict(shop.operator.webhooks.calls[0].document)
    assert document.pop("id").endswith("-Warning")
    assert "kappa.shop.delays in[0]" in document.pop("message")
    assert document.pop("policy").keys() == {"namespace", "name", "uid"}
    assert document.pop("at").endswith("Z")
    assert document == {
        "version": "v1", "cluster": "main", "severity": "Warning", "before": "None", "state": "Warning",
    }  # fmt: skip


async def test_min_severity_critical_sends_only_its_start_and_end() -> None:
    shop = await rise_and_fall(Shop(ask(minSeverity="Critical")))
    assert list_told(shop) == [("None", "Critical"), ("Critical", "None")]


async def test_a_policy_that_is_healthy_from_the_start_sends_nothing() -> None:
    shop = Shop(TELL)
    await shop.run(300, 10)
    assert shop.operator.webhooks.calls == []


async def test_an_attempt_that_fails_is_made_again_with_the_same_id_and_longer_pauses() -> None:
    shop = Shop(TELL)
    shop.operator.webhooks.answers = ["it answered 503"] * 3
    await shop.run(60, 10)
    shop.each = 1.0
    at: list[float] = []
    for _ in range(60):
        before = len(shop.operator.webhooks.calls)
        await shop.run(10, 10, behind=100)
        if len(shop.operator.webhooks.calls) > before:
            at.append((shop.operator.clock.time).timestamp())
    calls = shop.operator.webhooks.calls
    assert [each.attempt for each in calls] == [1, 2, 3, 4]
    assert len({each.id for each in calls}) == 1
    pauses = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert pauses == sorted(pauses)
    assert pauses[-1] >= 2 * pauses[0]
    assert get_notifications(shop)[-1]["result"] == "Delivered"


async def test_it_is_abandoned_and_reported_but_the_next_change_is_delivered() -> None:
    shop = Shop(TELL)
    shop.operator.webhooks.answers = ["it answered 401"] * 8
    await shop.run(60, 10)
    shop.each = 1.0
    await shop.run(3000, 10, behind=100)
    (said,) = shop.operator.list_events("WebhookFailed")
    assert (
        said
        == "hooks.example.com was not notified (None to Warning), given up after 8 attempts: it answered 401"
    )
    assert len(shop.operator.webhooks.calls) == 8
    shop.each = 1000.0
    await shop.run(600, 10)
    assert list_told(shop)[-1] == ("Warning", "None")


async def test_changes_wait_for_the_previous_one() -> None:
    shop = Shop(TELL)
    shop.operator.webhooks.answers = ["it answered 503"] * 6
    await rise_and_fall(shop)
    shop.each = 1000.0
    await shop.run(2000, 10)
    assert list_told(shop) == [("None", "Warning"), ("Warning", "Critical"), ("Critical", "None")]


async def test_the_token_comes_from_its_secret_and_is_shown_nowhere() -> None:
    shop = Shop(ask(tokenSecretRef={"name": "hook"}))
    await shop.run(60, 10)
    shop.each = 1.0
    await shop.run(200, 10, behind=100)
    assert shop.operator.webhooks.calls == []
    assert get_notifications(shop)[-1]["error"] == 'Secret "hook" not found in namespace "shop"; create it'
    shop.operator.cluster.put(build_secret("hook", token="s3cret"))
    await shop.run(600, 10, behind=100)
    assert shop.operator.webhooks.tokens == ["s3cret"]
    everything = json.dumps(
        [shop.operator.get(POLICY), shop.operator.list_events(), [repr(each) for each in shop.operator.webhooks.calls]],
        default=str,
    )  # fmt: skip
    assert "s3cret" not in everything
    assert "code=hidden" not in json.dumps([shop.operator.list_events(), get_notifications(shop)])


async def test_an_address_comes_from_its_secret_and_is_shown_nowhere() -> None:
    hook = {"urlSecretRef": {"name": "hook"}, "tokenSecretRef": {"name": "hook"}}
    shop = Shop({**TELL, "remediation": {"webhook": hook}})
    await shop.run(60, 10)
    shop.each = 1.0
    await shop.run(200, 10, behind=100)
    assert "not found" in get_notifications(shop)[-1]["error"]
    secret = build_secret("hook", token="s3cret", url="https://u:p@hooks.example.com/?code=hidden")
    shop.operator.cluster.put(secret)
    await shop.run(600, 10, behind=100)
    assert "is not an http or https address" in get_notifications(shop)[-1]["error"]
    assert shop.operator.webhooks.calls == []
    right = build_secret("hook", token="s3cret", url="https://hooks.example.com/?code=hidden\n")
    shop.operator.cluster.patch(ObjectRef("v1", "Secret", "shop", "hook"), data=right["data"])
    await shop.run(600, 10, behind=100)
    assert {each.url for each in shop.operator.webhooks.calls} == {"https://hooks.example.com/?code=hidden"}
    everything = json.dumps(
        [shop.operator.get(POLICY), shop.operator.list_events(), [repr(each) for each in shop.operator.webhooks.calls]],
        default=str,
    )  # fmt: skip
    assert "hidden" not in everything
    assert "the webhook was notified" in str(shop.operator.list_events())


async def test_a_forbidden_host_is_reported() -> None:
    shop = Shop(TELL)
    shop.operator.webhooks.refused = "the operator may not call hooks.example.com"
    await shop.run(60, 10)
    shop.each = 1.0
    await shop.run(200, 10, behind=100)
    assert get_notifications(shop)[-1]["error"] == "the operator may not call hooks.example.com"


async def test_a_webhook_that_fails_holds_no_other_remediation_up() -> None:
    spec = ask()
    spec["remediation"]["scale"] = {"min": 1, "max": 4}
    shop = Shop(spec)
    shop.operator.webhooks.refused = "the operator may not call hooks.example.com"
    await shop.run(300, 80)
    await shop.run(600, 160)
    assert shop.executors > 1


async def test_nothing_is_sent_in_a_mute_window_and_a_lasting_severity_is_sent_afterwards() -> None:
    shop = Shop({**TELL, "mute": [{"start": "0 0 * * *", "duration": "30m"}]})
    await shop.run(60, 10)
    shop.each = 1.0
    await shop.run(1600, 10, behind=100)
    assert shop.operator.webhooks.calls == []
    await shop.run(300, 10, behind=100)
    assert list_told(shop) == [("None", "Warning")]


async def test_what_waits_is_dropped_with_the_webhook() -> None:
    shop = Shop(TELL)
    shop.operator.webhooks.answers = ["it answered 503"] * 50
    await shop.run(60, 10)
    shop.each = 1.0
    await shop.run(300, 10, behind=100)
    body = shop.operator.get(POLICY) or {}
    del body["spec"]["remediation"]
    shop.operator.cluster.put(body)
    before = len(shop.operator.webhooks.calls)
    await shop.run(900, 10, behind=100)
    assert len(shop.operator.webhooks.calls) == before
    assert get_notifications(shop) == []


async def live(death: int | None) -> tuple[list[tuple[str, str]], int]:
    """Return what was told, and the writes until then."""
    shop = Shop(TELL)
    shop.operator.webhooks.answers = [None, "it answered 503"]
    fuse = shop.operator.cluster.fuse
    await shop.run(60, 10)
    fuse.die_after(death)
    writes = fuse.writes
    shop.each = 1.0
    await shop.run(210, 10, behind=100)
    await shop.run(120, 10, behind=600)  # a restart forgets up to a minute
    shop.each = 1000.0
    await shop.run(220, 10)
    assert {each["result"] for each in get_notifications(shop)} == {"Delivered"}
    return list_told(shop), shop.operator.cluster.fuse.writes - writes


async def test_dying_after_any_write_leaves_nothing_untold() -> None:
    wanted, writes = await live(None)
    assert wanted == [("None", "Warning"), ("Warning", "Critical"), ("Critical", "None")]
    for number in effort.deaths(writes):
        told, _ = await live(number)
        assert told == wanted, f"died after write {number} of {writes}"


@pytest.mark.parametrize("seconds", [1200])
async def test_an_unchanged_policy_writes_no_more_than_before(seconds: int) -> None:
    shop = await rise_and_fall(Shop(TELL))
    await shop.run(100, 10)
    before = shop.operator.cluster.fuse.writes
    await shop.run(seconds, 10)
    assert shop.operator.cluster.fuse.writes - before <= seconds / 60
