"""A state fingerprint that release 0.1 stored names its views' fields as the present release does, so nothing has changed."""

import json
from typing import Any

from kappa_crds.sink import OutputMode
from kappa_crds.view import View
from kappa_pipelines.plan.fingerprint import (
    OperatorFingerprint,
    QueryFingerprint,
    describe_view,
    update_names,
)

OUTPUT = {"sideOutput": {"topic": "late"}}
SLIDING: dict[str, Any] = {"from": "clicks", "length": "5m", "aggregates": {"n": "count(*)"}}
NEW = describe_view(View.model_validate({"name": "v", "sliding": {**SLIDING, "lateRecords": OUTPUT}}))
OLD = json.dumps({"name": "v", "sliding": {**SLIDING, "stragglers": OUTPUT}})


def build(definition: str) -> QueryFingerprint:
    operators = (
        OperatorFingerprint(view="v", operator="state in Python", parts={"definition": (definition,)}),
        OperatorFingerprint(view="v", operator="aggregation", parts={"keys": ("k",)}),
    )
    return QueryFingerprint(
        sources={}, topic="out", mode=OutputMode.APPEND, operators=operators, views={"v": definition}
    )


def test_a_renamed_field_is_no_changed_definition() -> None:
    assert "stragglers" not in NEW
    assert update_names(build(OLD)) == build(NEW)
    assert update_names(build(NEW)) == build(NEW)
