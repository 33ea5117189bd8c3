"""Python modules from a ConfigMap: which can be used, and what a change of them does to a pipeline."""

from typing import Any

import pytest

from fakes.context import build_resource
from kappa_crds.reasons import Reason
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.recent import MINUTE
from kappa_operator.errors import ReferenceProblem
from kappa_operator.pipeline.modules import MODULES_LIMIT, select_modules
from kappa_operator.settings import Settings
from unit.control.lives import PIPELINE, SPEC, Life

CONFIG_MAP = ObjectRef("v1", "ConfigMap", "shop", "rules")
FROM_RULES = {**SPEC, "pythonFrom": {"configMapRef": {"name": "rules"}}}


def test_only_keys_that_end_in_py_are_modules() -> None:
    assert select_modules("rules", {"b.py": "1", "a_1.py": "2", "README.md": "x"}) == {
        "a_1.py": "2",
        "b.py": "1",
    }


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "ConfigMap rules has no key that ends in .py"),
        ({"README.md": "x"}, "has no key that ends in .py"),
        ({"my-rules.py": ""}, "has the key my-rules.py, which Python cannot import"),
        ({"a.b.py": ""}, "has the key a.b.py, which Python cannot import"),
        ({".py": ""}, "has the key .py, which Python cannot import"),
        ({"class.py": ""}, "has the key class.py, which Python cannot import"),
        ({"json.py": ""}, "has the key json.py, which would hide a module"),
        ({"pyspark.py": ""}, "would hide"),
        (
            {"big.py": "ä" * (MODULES_LIMIT // 2), "a.py": "x"},
            "has 513 KiB of modules, 512 at most; build them into",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_key(data: dict[str, str], said: str) -> None:
    with pytest.raises(ReferenceProblem, match=said) as refused:
        select_modules("rules", data)
    assert refused.value.reason == Reason.PYTHON_MODULES_INVALID
    assert not refused.value.retryable


def test_so_many_bytes_are_just_allowed() -> None:
    assert select_modules("rules", {"big.py": "x" * MODULES_LIMIT})


async def write(life: Life, **data: str) -> tuple[dict[str, Any], str]:
    """Put modules into the ConfigMap; return the pipeline's status in the end, and its Ready reason."""
    metadata = {"name": CONFIG_MAP.name, "namespace": CONFIG_MAP.namespace}
    files = {f"{name}.py": text for name, text in data.items()}
    life.operator.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": files})
    return await read_end(life)


async def read_end(life: Life) -> tuple[dict[str, Any], str]:
    await life.settle()
    status = (life.operator.get(PIPELINE) or {})["status"]
    return status, next(c["reason"] for c in status["conditions"] if c["type"] == "Ready")


def read_revision(life: Life, status: dict[str, Any]) -> str:
    body = life.operator.cluster.read(ObjectRef("v1", "ConfigMap", "shop", status["runs"][0]["revision"]))
    assert body is not None
    assert body["immutable"] is True
    return str(body["data"]["revision.json"])


async def test_a_change_of_the_modules_is_a_new_revision_with_its_own_code() -> None:
    life = Life()
    await life.prepare()
    life.operator.cluster.put(build_resource("Pipeline", "delays", **FROM_RULES))
    _, reason = await read_end(life)
    assert (reason, life.node.made) == (Reason.PYTHON_MODULES_NOT_FOUND, [])
    _, reason = await write(life, json="")
    assert (reason, life.node.made) == (Reason.PYTHON_MODULES_INVALID, [])
    first, reason = await write(life, rules="FIRST = 1")
    assert (reason, first["lastGeneration"]) == (Reason.RUNNING, 1)
    assert "FIRST = 1" in read_revision(life, first)
    again, _ = await write(life, rules="FIRST = 1")
    assert again["runs"][0]["revision"] == first["runs"][0]["revision"]
    life.operator.clock.advance(MINUTE)
    second, _ = await write(life, rules="SECOND = 2")
    assert (second["lastGeneration"], life.node.most_alive) == (2, 1)
    assert "SECOND = 2" in read_revision(life, second)
    life.operator.cluster.remove(CONFIG_MAP)
    life.operator.clock.advance(MINUTE)
    last, reason = await read_end(life)
    assert (reason, last["lastGeneration"]) == (Reason.RUNNING, 2)
    assert 'ConfigMap "rules" not found' in last["conditions"][0]["message"]


PYTHON_VIEW = {"name": "scored", "python": {"function": "rules:score", "reads": ["events"]}}
FORBIDDEN = Settings(allow_python_views=False)


def restart(life: Life, settings: Settings) -> None:
    life.operator = life.operator.restart(settings)
    life.node.watch()


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({**SPEC, "views": [PYTHON_VIEW]}, "view 'scored' (python)"),
        (FROM_RULES, "spec.pythonFrom"),
    ],
)
async def test_python_that_the_installation_forbids_has_no_driver(spec: dict[str, Any], named: str) -> None:
    life = Life(settings=FORBIDDEN)
    await life.prepare()
    life.operator.cluster.put(build_resource("Pipeline", "delays", **spec))
    status, reason = await read_end(life)
    ready = next(c for c in status["conditions"] if c["type"] == "Ready")
    assert (reason, life.node.made) == (Reason.PYTHON_FORBIDDEN, [])
    assert named in ready["message"]
    assert next(c["status"] for c in status["conditions"] if c["type"] == "Stalled") == "True"


async def test_a_running_driver_with_python_is_stopped_when_the_installation_forbids_it() -> None:
    life = Life()
    await life.prepare()
    life.operator.cluster.put(build_resource("Pipeline", "delays", **{**SPEC, "views": [PYTHON_VIEW]}))
    _, reason = await read_end(life)
    assert reason == Reason.RUNNING
    restart(life, FORBIDDEN)
    status, reason = await read_end(life)
    assert reason == Reason.PYTHON_FORBIDDEN
    assert "driver" not in status["runs"][0]
    assert status["restarts"]["total"] == 0
    restart(life, Settings())
    status, reason = await read_end(life)
    assert (reason, status["lastGeneration"], life.node.most_alive) == (Reason.RUNNING, 2, 1)


async def test_a_pipeline_without_python_runs_where_python_is_forbidden_and_its_driver_has_the_setting() -> (
    None
):
    life = Life(settings=FORBIDDEN)
    await life.prepare()
    life.operator.cluster.put(build_resource("Pipeline", "delays", **SPEC))
    _, reason = await read_end(life)
    assert reason == Reason.RUNNING
    (pod,) = life.operator.cluster.find("v1", "Pod")
    variables = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert variables["KAPPA_ALLOW_PYTHON_VIEWS"] == "false"
