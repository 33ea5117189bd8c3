"""Leader election over a Lease: of several replicas one acts, the others watch along and are ready to take over.

A leader that cannot renew stops acting before its lease runs out for others: it steps down after two thirds of the
duration, a candidate takes over after the whole. The judgement is by each replica's own clock (time since the lease
was last *seen* to change), so clocks need not agree. Source: the algorithm of client-go's leaderelection package.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import AlreadyExists, Conflict, KubernetesError

log = structlog.get_logger(__name__)

Body = dict[str, Any]
_RENEWALS, _CHECKS = 5, 10
"""How often a leader renews its lease, and a candidate reads it, in the duration of the lease."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """What is known of the lease: who holds it, and since when (own clock, seconds) it has not changed."""

    holder: str
    version: str
    seen_at: float
    duration: float


def may_take(lease: LeaseView | None, identity: str, now: float) -> bool:
    """Return whether this replica may write itself into the lease."""
    return lease is None or lease.holder in ("", identity) or now - lease.seen_at > lease.duration


class Elector:
    """Keeps one replica's part in the election. `leading` is whether it may act now."""

    def __init__(
        self,
        cluster: ApiCluster,
        ref: ObjectRef,
        identity: str,
        clock: Callable[[], float],
        *,
        duration: float = 10.0,
    ) -> None:
        self._cluster = cluster
        self._ref = ref
        self._identity = identity
        self._clock = clock
        self._duration = duration
        self._seen: LeaseView | None = None
        self._renewed_at = float("-inf")
        self.acquired = asyncio.Event()

    @property
    def leading(self) -> bool:
        """Return whether the lease is held and fresh enough to act."""
        return self._clock() - self._renewed_at < self._duration * 2 / 3

    async def run(self) -> None:
        """Stand for election until the lease is won, then renew it; return when it is lost."""
        while True:
            was_leading = self.acquired.is_set()
            with contextlib.suppress(KubernetesError):
                await self.attempt()
            if self.leading and not was_leading:
                log.info("elected", identity=self._identity)
                self.acquired.set()
            if was_leading and not self.leading:
                log.error("lease lost", identity=self._identity)
                return
            await asyncio.sleep(self._duration / (_RENEWALS if self.leading else _CHECKS))

    async def attempt(self) -> None:
        """Take or renew the lease where that is allowed."""
        asked_at = self._clock()
        body = await self._cluster.get(self._ref)
        self._look(body)
        if not may_take(self._seen, self._identity, self._clock()):
            return
        try:
            written = await self._write(body)
        except (AlreadyExists, Conflict):
            return
        self._look(written)
        self._renewed_at = asked_at

    async def release(self) -> None:
        """Give the lease back, so that another replica takes over at once; one that cannot be given back runs out."""
        if not self.leading:
            return
        self._renewed_at = float("-inf")
        with contextlib.suppress(KubernetesError):
            body = await self._cluster.get(self._ref)
            if body is not None and body["spec"].get("holderIdentity") == self._identity:
                body["spec"]["holderIdentity"] = ""
                await self._cluster.replace(body)

    def _look(self, body: Body | None) -> None:
        if body is None:
            self._seen = None
            return
        version = body["metadata"]["resourceVersion"]
        if self._seen is None or self._seen.version != version:
            spec = body["spec"]
            self._seen = LeaseView(
                holder=spec.get("holderIdentity") or "",
                version=version,
                seen_at=self._clock(),
                duration=float(spec.get("leaseDurationSeconds", self._duration)),
            )

    async def _write(self, body: Body | None) -> Body:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "renewTime": now,
        }
        if body is None:
            manifest = {
                "apiVersion": self._ref.api_version,
                "kind": self._ref.kind,
                "metadata": {"name": self._ref.name, "namespace": self._ref.namespace},
                "spec": {**spec, "acquireTime": now, "leaseTransitions": 0},
            }
            return await self._cluster.create(manifest)
        before = body["spec"]
        taken = before.get("holderIdentity") != self._identity
        body["spec"] = {
            **spec,
            "acquireTime": now if taken else before.get("acquireTime", now),
            "leaseTransitions": before.get("leaseTransitions", 0) + (1 if taken else 0),
        }
        return await self._cluster.replace(body)
