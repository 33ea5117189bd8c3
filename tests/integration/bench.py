"""An operator in process, against the real API server, with the permissions of the chart and no other."""

import asyncio
import os
import secrets
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from fakes.context import FakeDrivers, build_resource
from fakes.permissions import read_rules
from integration.accounts import build_kubeconfig
from kappa_crds import API_VERSION
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import Key, ObjectRef
from kappa_operator.engine.reconcile import reconcile
from kappa_operator.errors import Conflict, NotFound
from kappa_operator.kafka.clients import AdminClients
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.settings import Settings
from lab.paths import KUBECONFIG

PATIENCE = 90.0


class Bench:
    """An operator in process that reconciles what a test names, in a namespace of its own. `cluster` is the test's own way."""

    def __init__(self, cluster: ApiCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.kafka = AdminClients()
        self.context = OperatorContext(
            cluster=cluster, cache=ResourceCache(KIND_TABLE), kafka=self.kafka, drivers=FakeDrivers(),
            settings=Settings(),
        )  # fmt: skip

    @classmethod
    @asynccontextmanager
    async def open(cls) -> AsyncIterator[Self]:
        """Have a namespace for the time of a test."""
        assert KUBECONFIG.exists(), f"{KUBECONFIG} is missing: bring the local cluster up first"
        os.environ["KUBECONFIG"] = str(KUBECONFIG)
        namespace = f"it-{secrets.token_hex(3)}"
        async with await ApiCluster.connect("kappa-lab") as cluster:
            name = {"name": namespace, "namespace": ""}
            await cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": name})
            bench = cls(cluster, namespace)
            try:
                async with bench._connect_operator() as operator:
                    bench.context = replace(bench.context, cluster=operator)
                    yield bench
            finally:
                await bench.kafka.close()
                await cluster.delete(ObjectRef("v1", "Namespace", "", namespace))

    @asynccontextmanager
    async def _connect_operator(self) -> AsyncIterator[ApiCluster]:
        """Log in as an account that has the chart's rules in the namespace."""
        metadata = {"name": "operator", "namespace": self.namespace}
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata}
        await self.cluster.create({**role, "rules": read_rules()})
        with tempfile.TemporaryDirectory() as folder:
            path = await asyncio.to_thread(build_kubeconfig, self, Path(folder), "kappa-operator", "operator")
            os.environ["KUBECONFIG"] = str(path)
            try:
                connection = await ApiCluster.connect("kappa-lab")
            finally:
                os.environ["KUBECONFIG"] = str(KUBECONFIG)
        async with connection as operator:
            yield operator

    async def put(self, kind: str, name: str, **spec: Any) -> Key:
        """Create or change a resource as a user does."""
        body = build_resource(kind, name, self.namespace, **spec)
        before = await self.read(Key(kind, self.namespace, name))
        if before is None:
            await self.cluster.create(body)
        else:
            await self.cluster.replace({**before, "spec": spec})
        return Key(kind, self.namespace, name)

    async def read(self, key: Key) -> dict[str, Any] | None:
        """Return the resource as it is now."""
        return await self.cluster.get(ObjectRef(API_VERSION, *key))

    async def look(self, key: Key) -> None:
        """Reconcile once, on a fresh picture of the namespace."""
        for kind in KIND_TABLE:
            for body in await self.cluster.list_objects(API_VERSION, kind, self.namespace):
                self.context.cache.put(body)
        if await self.read(key) is None:
            self.context.cache.forget(key)
        try:
            await reconcile(self.context, key)
        except (Conflict, NotFound):
            return

    async def await_reason(self, key: Key, reason: str) -> dict[str, Any]:
        """Look again and again until Ready has this reason; return the status."""
        deadline = time.monotonic() + PATIENCE
        while True:
            await self.look(key)
            status: dict[str, Any] = (await self.read(key) or {}).get("status", {})
            ready = next((c for c in status.get("conditions", []) if c["type"] == "Ready"), None)
            if ready is not None and ready["reason"] == reason:
                return status
            assert time.monotonic() < deadline, f"{key} is {ready}"
            await asyncio.sleep(0.5)
