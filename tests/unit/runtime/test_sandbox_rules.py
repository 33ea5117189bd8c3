"""The bounds of literal arguments, without Spark, and the setting that forbids Python."""

from typing import Any

import pytest

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reasons import Reason
from kappa_pipelines.errors import SpecError
from kappa_pipelines.revision.environment import check_python
from kappa_pipelines.sandbox.rules import refuse_arguments, refuse_call, refuse_function


@pytest.mark.parametrize(
    ("function", "within", "beyond"),
    [
        ("repeat", ("x", 1_000_000), ("x", 1_000_001)),
        ("sequence", (1, 1_000_000), (1, 1_000_002)),
        ("sequence", (0, 10**9, 1000), (0, 10**9, 999)),
        ("sequence", (None, 10**12), (10**12, 0)),
        ("range", (1_000_000,), (1_000_001,)),
        ("window", (None, 864 * 10**8, 864 * 10**4), (None, 864 * 10**8, 1)),
        ("round", (None, -1000), (None, -1001)),
        ("approx_count_distinct", (None, 0.001), (None, "1e-9")),
        ("printf", ("%9999d %s",), ("%1$-10000d",)),
        ("upper", (10**12,), ()),
    ],
)
def test_a_literal_argument_has_a_bound(
    function: str, within: tuple[Any, ...], beyond: tuple[Any, ...]
) -> None:
    assert refuse_arguments(function, within) is None
    assert (refuse_arguments(function, beyond) is None) == (beyond == ())


def test_a_step_of_zero_is_left_to_spark() -> None:
    assert refuse_arguments("sequence", (1, 10**12, 0)) is None


@pytest.mark.parametrize(
    "parts", [["reflect"], ["system", "builtin", "REFLECT"], ["other", "f"], ["nothing"]]
)
def test_a_function_that_is_not_listed_is_refused(parts: list[str]) -> None:
    assert refuse_function(parts, {"upper"}) is not None


def test_a_hint_is_no_function() -> None:
    assert refuse_call("UnresolvedHint", ["BROADCAST"], []) is None
    assert refuse_call("UnresolvedHint", ["upper"], []) is not None
    assert refuse_call("UnresolvedFunction", ["broadcast"], []) is not None


def _spec(**fields: Any) -> PipelineSpec:
    source = {"name": "events", "topic": "in", "format": {"json": {"schema": "k STRING"}}}
    sink = {"name": "log", "from": "events", "kafka": {"topic": "out"}}
    return PipelineSpec.model_validate({"sources": [source], "sinks": [sink], **fields})


def test_python_is_refused_only_where_the_variable_forbids_it() -> None:
    spec = _spec(pythonFrom={"configMapRef": {"name": "rules"}})
    check_python(spec, {})
    check_python(_spec(), {"KAPPA_ALLOW_PYTHON_VIEWS": "false"})
    with pytest.raises(SpecError, match=r"spec\.pythonFrom") as refused:
        check_python(spec, {"KAPPA_ALLOW_PYTHON_VIEWS": "false"})
    assert refused.value.reason is Reason.PYTHON_FORBIDDEN
