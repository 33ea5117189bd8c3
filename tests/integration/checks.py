"""Runs the check of a state store as its pod does: the operator's own request and variables, in a process with nothing else."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fakes.context import START
from kappa_crds.savepoint_work import REQUEST_ANNOTATION, WorkResult
from kappa_crds.statestore import STATE_STORE
from kappa_operator.engine.actions import CreateObject
from kappa_operator.kinds import KIND_TABLE
from kappa_operator.statestore.model import StateStoreObserved

_KEPT = ("PATH", "HOME", "LANG")


def check(folder: Path, spec: dict[str, Any], secret: Mapping[str, str] | None = None) -> WorkResult:
    """Return what the pod of a store's check reports; `secret` is the Secret with its keys."""
    metadata = {"name": "s", "namespace": "shop", "uid": "u-1"}
    store = STATE_STORE.parse({"metadata": metadata, "spec": spec})
    plan = KIND_TABLE["StateStore"].decide(StateStoreObserved(store), START)
    (create,) = (each for each in plan.actions if isinstance(each, CreateObject))
    request, ended = folder / "request.json", folder / "ended"
    request.write_text(create.manifest["metadata"]["annotations"][REQUEST_ANNOTATION])
    container = create.manifest["spec"]["containers"][0]
    variables = {each["name"]: _resolve(each, secret or {}) for each in container.get("env", [])}
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    assert container["args"][0] == "savepoint"
    process = subprocess.run(
        [sys.executable, "-m", "kappa_pipelines.savepoint", str(request)],
        env={**kept, **variables, "KAPPA_TERMINATION_FILE": str(ended)},
        check=False, timeout=120,
    )  # fmt: skip
    result = WorkResult.model_validate(json.loads(ended.read_text()))
    assert (process.returncode == 0) == (result.checked is not None)
    return result


def _resolve(variable: dict[str, Any], secret: Mapping[str, str]) -> str:
    if "value" in variable:
        return str(variable["value"])
    return secret[variable["valueFrom"]["secretKeyRef"]["key"]]
