"""The only way to the webhooks of LagPolicies: POST by HTTP, beside the reconciles, to hosts that the operator's settings allow.

Any author of a LagPolicy could otherwise use the operator to call addresses in the cluster, or the metadata service of a cloud. Hence
there is no call without a host in the list, no redirect is followed, no proxy of the environment is used, no cookie is kept, and nothing of
an answer but its status is ever read. The namespaces share the calls at the same time, so that slow servers delay their own team alone.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from kappa_operator.answers import open_plain_session
from kappa_operator.engine.actions import CallWebhook
from kappa_operator.engine.keys import Key
from kappa_operator.errors import WebhookFailure
from kappa_operator.fair import FairSlots
from kappa_operator.hosts import Host
from kappa_operator.lagpolicy.notification import Delivery

TIMEOUT = 10.0
"""Seconds for a whole call."""
_AT_ONCE = 32


@dataclass(slots=True)
class _Call:
    id: str
    attempt: int
    task: "asyncio.Task[None] | None" = None
    delivery: Delivery | None = None


@dataclass(slots=True)
class HttpWebhooks:
    """Calls under way and what came of the last one of each policy. `allowed` are hosts, as `is_allowed` has them."""

    allowed: Sequence[str] = ()
    timeout: float = TIMEOUT
    _calls: dict[Key, _Call] = field(default_factory=dict)
    _slots: FairSlots = field(default_factory=lambda: FairSlots(_AT_ONCE))

    def start(self, action: CallWebhook, token: str | None) -> None:
        """Begin a call; the same attempt once more changes nothing. Raise WebhookFailure where the host may not be called."""
        self.check(action.url)
        known = self._calls.get(action.policy)
        if known is not None and (known.id, known.attempt) == (action.id, action.attempt):
            return
        self.forget(action.policy)
        call = _Call(action.id, action.attempt)
        call.task = asyncio.create_task(self._run(call, action, token))
        self._calls[action.policy] = call

    def get(self, policy: Key) -> Delivery | None:
        """Return what came of the last attempt of a policy, None while it is under way or where there was none."""
        call = self._calls.get(policy)
        return None if call is None else call.delivery

    def forget(self, policy: Key) -> None:
        """End and forget the call of a policy that is gone."""
        call = self._calls.pop(policy, None)
        if call is not None and call.task is not None:
            call.task.cancel()

    async def close(self) -> None:
        """End all calls."""
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        for policy in list(self._calls):
            self.forget(policy)
        await asyncio.gather(*tasks, return_exceptions=True)

    def check(self, url: str) -> None:
        """Raise WebhookFailure where the installation does not allow the host."""
        if not self.allowed:
            message = "the operator calls no webhooks; its administrator can allow hosts with operator.webhookHosts of the chart"
            raise WebhookFailure(message)
        if not is_allowed(url, self.allowed):
            host = URL(url).host
            raise WebhookFailure(
                f"the operator may not call {host}; its administrator can add it to operator.webhookHosts of the chart"
            )

    async def _run(self, call: _Call, action: CallWebhook, token: str | None) -> None:
        error: str | None = "the call ended without a result"
        try:
            async with self._slots.hold(action.policy.namespace):
                error = await self._post(action, token)
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as problem:
            within = f" within {self.timeout:g} s" if isinstance(problem, TimeoutError) else ""
            error = f"no answer{within} ({type(problem).__name__})"
        call.delivery = Delivery(call.id, call.attempt, error)

    async def _post(self, action: CallWebhook, token: str | None) -> str | None:
        """Call once, by a session of its own; return why it was not taken, None where it was."""
        headers = {"Kappa-Notification-Id": action.id}
        if token is not None:
            headers["Authorization"] = f"Bearer {token.strip()}"
        limits = aiohttp.ClientTimeout(total=self.timeout)
        async with (
            open_plain_session(limits, aiohttp.TCPConnector()) as session,
            session.post(action.url, json=action.document, headers=headers, allow_redirects=False) as answer,
        ):
            if 200 <= answer.status < 300:
                return None
            if 300 <= answer.status < 400:
                return f"it answered {answer.status}, a redirect, which is not followed"
            return f"it answered {answer.status}"


def is_allowed(url: str, allowed: Sequence[str]) -> bool:
    """Return whether a pattern allows a URL's host."""
    with contextlib.suppress(ValueError):
        return Host.of_url(url).is_in(allowed)
    return False
