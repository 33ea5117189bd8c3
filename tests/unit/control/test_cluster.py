"""How requests to the API server are authorised."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef

ANYTHING = ObjectRef("v1", "ConfigMap", "team", "any")
LOG_IN = """#!/bin/sh
date +%s%N >> "$0.calls"
cat <<END
{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "spec": {"interactive": false},
 "status": {"token": "$(wc -l < "$0.calls" | tr -d ' ')", "expirationTimestamp": "2020-01-01T00:00:00Z"}}
END
"""


@pytest.fixture
async def server() -> AsyncIterator[Any]:
    """An API server that says which token it was given."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"token": request.headers.get("Authorization")})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as found:
        yield found


def write_kubeconfig(folder: Path, server: Any, user: dict[str, Any]) -> None:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "someone"}}],
        "clusters": [{"name": "lab", "cluster": {"server": str(server.make_url("/"))}}],
        "users": [{"name": "someone", "user": user}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(content))


async def ask(cluster: ApiCluster) -> Any:
    return (await cluster.get(ANYTHING) or {})["token"]


async def test_a_token_of_the_kubeconfig_is_sent(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kubeconfig(tmp_path, server, {"token": "s3cret"})
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    async with await ApiCluster.connect() as cluster:
        assert await ask(cluster) == "Bearer s3cret"


async def test_a_credential_plugin_runs_again_when_its_token_has_expired(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = tmp_path / "log-in"
    plugin.write_text(LOG_IN)
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}}  # fmt: skip
    write_kubeconfig(tmp_path, server, user)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    async with await ApiCluster.connect() as cluster:
        tokens = [await ask(cluster), await ask(cluster)]
    assert tokens[0] != tokens[1]
    assert all(token.startswith("Bearer ") for token in tokens), tokens


async def test_without_a_token_none_is_sent(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_kubeconfig(tmp_path, server, {})
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    async with await ApiCluster.connect("lab") as cluster:
        assert await ask(cluster) is None
