"""Runs the check of a state store as its pod does: by the operator's own request and variables."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fakes.context import START
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, WorkResult
from kappa_crds.statestore import STATE_STORE
from kappa_operator.engine.actions import CreateObject
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.statestore.model import StateStoreObserved
from kappa_pipelines.savepoint.__main__ import main

_KEPT = ("PATH", "HOME", "LANG")


def check(
    folder: Path, spec: dict[str, Any], secret: Mapping[str, str] | None = None, *, alone: bool = False
) -> WorkResult:
    """Return what the pod of a store's check reports; `secret` is the Secret with its keys.

    `alone` runs it in a process that has nothing else, which takes half a second of processor time.
    """
    metadata = {"name": "s", "namespace": "shop", "uid": "u-1"}
    store = STATE_STORE.parse({"metadata": metadata, "spec": spec})
    plan = KIND_TABLE["StateStore"].decide(StateStoreObserved(store), START)
    (create,) = (each for each in plan.actions if isinstance(each, CreateObject))
    request, ended = folder / "request.json", folder / "ended"
    request.write_text(create.manifest["metadata"]["annotations"][REQUEST_ANNOTATION])
    container = create.manifest["spec"]["containers"][0]
    variables = {each["name"]: _resolve(each, secret or {}) for each in container.get("env", [])}
    variables |= {"KAPPA_TERMINATION_FILE": str(ended)}
    assert container["args"][0] == "savepoint"
    code = _start(request, variables) if alone else _call(request, variables)
    result = WorkResult.model_validate(json.loads(ended.read_text()))
    assert (code == 0) == (result.checked is not None)
    return result


def _start(request: Path, variables: Mapping[str, str]) -> int:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    command = [sys.executable, "-m", "kappa_pipelines.savepoint", str(request)]
    return subprocess.run(command, env={**kept, **variables}, check=False, timeout=120).returncode


def _call(request: Path, variables: Mapping[str, str]) -> int:
    with patch.dict(os.environ, variables):
        return main([str(request)])


def _resolve(variable: dict[str, Any], secret: Mapping[str, str]) -> str:
    if "value" in variable:
        return str(variable["value"])
    return secret[variable["valueFrom"]["secretKeyRef"]["key"]]
