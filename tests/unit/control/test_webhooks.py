"""Calls of webhooks over real HTTP: what is sent, what counts as taken, and what is never called."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from kappa_operator.engine.actions import CallWebhook
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.errors import WebhookFailure
from kappa_operator.lagpolicy.notification import Delivery
from kappa_operator.lagpolicy.webhooks import HttpWebhooks, is_allowed

POLICY = Key("LagPolicy", "shop", "gold")


class Receiver:
    """A server that keeps what it gets. The path says how it answers."""

    def __init__(self) -> None:
        self.got: list[tuple[dict[str, str], Any]] = []
        self.hanging = asyncio.Event()
        app = web.Application()
        app.add_routes([web.post("/{path:.*}", self._take), web.get("/{path:.*}", self._take)])
        self.server = TestServer(app)

    async def _take(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.got.append((dict(request.headers), await request.json() if request.can_read_body else None))
        if path == "away":
            raise web.HTTPTemporaryRedirect("/elsewhere")
        if path == "never":
            self.hanging.set()
            await asyncio.sleep(3600)
        return web.Response(status=int(path) if path.isdigit() else 200, text="a secret of the server")

    def url(self, path: str = "") -> str:
        return str(self.server.make_url(f"/{path}"))


@pytest_asyncio.fixture
async def receiver() -> AsyncIterator[Receiver]:
    found = Receiver()
    await found.server.start_server()
    yield found
    await found.server.close()


@pytest_asyncio.fixture
async def webhooks() -> AsyncIterator[HttpWebhooks]:
    found = HttpWebhooks(("127.0.0.1",), timeout=30.0)
    yield found
    await found.close()


def call(url: str, attempt: int = 1) -> CallWebhook:
    return CallWebhook(POLICY, url, "uid-1", attempt, {"id": "uid-1", "severity": "Critical"})


async def finish(webhooks: HttpWebhooks) -> Delivery:
    while (found := webhooks.get(POLICY)) is None:  # noqa: ASYNC110 - nobody is to wait for a call but a test
        await asyncio.sleep(0.01)
    return found


async def test_the_document_is_sent_with_its_id_and_token(receiver: Receiver, webhooks: HttpWebhooks) -> None:
    webhooks.start(call(receiver.url()), "s3cret\n")
    assert await finish(webhooks) == Delivery("uid-1", 1)
    ((headers, document),) = receiver.got
    assert headers["Authorization"] == "Bearer s3cret"
    assert headers["Kappa-Notification-Id"] == "uid-1"
    assert headers["Content-Type"].startswith("application/json")
    assert document == {"id": "uid-1", "severity": "Critical"}


async def test_an_attempt_is_made_once_however_often_it_is_begun(
    receiver: Receiver, webhooks: HttpWebhooks
) -> None:
    for _ in range(3):
        webhooks.start(call(receiver.url()), None)
    await finish(webhooks)
    webhooks.start(call(receiver.url()), None)
    assert await finish(webhooks) == Delivery("uid-1", 1)
    assert len(receiver.got) == 1
    assert "Authorization" not in receiver.got[0][0]
    webhooks.start(call(receiver.url(), 2), None)
    assert await finish(webhooks) == Delivery("uid-1", 2)
    assert len(receiver.got) == 2


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
async def test_an_unsuccessful_answer_is_reported_without_its_text(
    receiver: Receiver, webhooks: HttpWebhooks, status: int
) -> None:
    webhooks.start(call(receiver.url(str(status))), None)
    assert await finish(webhooks) == Delivery("uid-1", 1, f"it answered {status}")


async def test_a_redirect_is_not_followed(receiver: Receiver, webhooks: HttpWebhooks) -> None:
    webhooks.start(call(receiver.url("away")), "s3cret")
    assert await finish(webhooks) == Delivery(
        "uid-1", 1, "it answered 307, a redirect, which is not followed"
    )
    assert len(receiver.got) == 1


async def test_a_server_that_never_answers_delays_no_other_call(receiver: Receiver) -> None:
    webhooks = HttpWebhooks(("127.0.0.1",), timeout=2.0)
    webhooks.start(call(receiver.url("never")), None)
    await receiver.hanging.wait()
    assert webhooks.get(POLICY) is None, "the caller goes on"
    assert await finish(webhooks) == Delivery("uid-1", 1, "no answer within 2 s (TimeoutError)")
    await webhooks.close()


async def test_a_server_that_is_not_there(receiver: Receiver, webhooks: HttpWebhooks) -> None:
    url = receiver.url()
    await receiver.server.close()
    webhooks.start(call(url), "s3cret")
    found = await finish(webhooks)
    assert found.error == "no answer (ClientConnectorError)"


async def test_a_deleted_policy_has_no_metrics(receiver: Receiver, webhooks: HttpWebhooks) -> None:
    webhooks.start(call(receiver.url("never")), None)
    await receiver.hanging.wait()
    webhooks.forget(POLICY)
    assert webhooks.get(POLICY) is None


async def test_without_allowed_hosts_no_webhook_is_called(receiver: Receiver) -> None:
    with pytest.raises(WebhookFailure, match="calls no webhooks"):
        HttpWebhooks().start(call(receiver.url()), None)
    with pytest.raises(WebhookFailure, match=r"may not call 127\.0\.0\.1"):
        HttpWebhooks(("hooks.example.com",)).start(call(receiver.url()), None)
    assert receiver.got == []


@pytest.mark.parametrize(
    ("url", "allowed", "wanted"),
    [
        ("https://hooks.example.com/x", ["hooks.example.com"], True),
        ("https://HOOKS.example.com./x", ["hooks.example.com"], True),
        ("https://hooks.example.com:8443/x", ["hooks.example.com"], True),
        ("https://hooks.example.com/x", ["hooks.example.com:443"], True),
        ("https://hooks.example.com:8443/x", ["hooks.example.com:443"], False),
        ("https://a.example.com/x", ["*.example.com"], True),
        ("https://example.com/x", ["*.example.com"], False),
        ("https://badexample.com/x", ["*.example.com"], False),
        ("https://hooks.example.com.evil.test/x", ["hooks.example.com"], False),
        ("https://hooks.example.com@evil.test/x", ["hooks.example.com"], False),
        ("https://evil.test/@hooks.example.com", ["hooks.example.com"], False),
        ("https://evil.test#hooks.example.com", ["hooks.example.com"], False),
        ("https://evil.test\\@hooks.example.com/", ["hooks.example.com"], False),
        ("http://169.254.169.254/latest/meta-data", ["hooks.example.com"], False),
        ("http://[::1]/x", ["hooks.example.com"], False),
        ("file:///etc/passwd", ["hooks.example.com"], False),
        ("https://hooks.example.com:99999/x", ["hooks.example.com"], False),
    ],
)
def test_which_hosts_may_be_called(url: str, allowed: Sequence[str], wanted: bool) -> None:
    assert is_allowed(url, allowed) is wanted


def test_a_call_shows_neither_its_url_nor_its_document() -> None:
    action = CallWebhook(
        POLICY, "https://h/x?code=1", "id", 1, {"a": "b"}, ObjectRef("v1", "Secret", "shop", "hook"), "token"
    )
    assert "code=1" not in repr(action)
    assert "'a'" not in repr(action)
