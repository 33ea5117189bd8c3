"""How the state of each kind of operator is asked for."""

import json
from typing import Any, NamedTuple

import pytest

from kappa_pipelines.savepoint.reader import list_reads


class Store(NamedTuple):
    stateStoreName: str
    operatorProperties: str = "{}"


VARIABLES = json.dumps(
    {"stateVariables": [{"stateName": "found"}, {"stateName": "seen"}, {"stateName": "$timers"}]}
)


@pytest.mark.parametrize(
    ("operator", "stores", "reads"),
    [
        ("stateStoreSave", [Store("default")], [{"storeName": "default"}]),
        (
            "symmetricHashJoin",
            [Store("left-keyToNumValues"), Store("right-keyToNumValues")],
            [{"joinSide": "left"}, {"joinSide": "right"}],
        ),
        (
            "transformWithStateInPandasExec",
            [Store("default", VARIABLES)],
            [{"stateVarName": "found"}, {"stateVarName": "seen"}],
        ),
        ("dedupe", [Store("default", "")], [{"storeName": "default"}]),
    ],
)
def test_each_operator_is_read_in_its_own_way(operator: str, stores: list[Any], reads: list[Any]) -> None:
    assert list(list_reads(operator, stores)) == reads
