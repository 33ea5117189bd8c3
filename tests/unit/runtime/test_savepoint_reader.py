"""How the state of each kind of operator is asked for, and what is made of a scratch checkpoint before that."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kappa_pipelines.checkpoint.folder import LocalFolder
from kappa_pipelines.savepoint.reader import list_reads, write_offsets_plainly


class Store(NamedTuple):
    stateStoreName: str
    operatorProperties: str = "{}"


VARIABLES = json.dumps({"stateVariables": [{"stateName": "found"}, {"stateName": "seen"}]})


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


def test_offsets_with_names_are_written_without_and_others_stay(tmp_path: Path) -> None:
    files = LocalFolder(f"file://{tmp_path}")
    files.write("named", b'v2\n{"conf":{}}\nclicks:{"in":{"0":5}}\ntaps:-')
    files.write("plain", b'v1\n{"conf":{}}\n{"in":{"0":5}}')
    for name in ("named", "plain"):
        write_offsets_plainly(files, name)
    assert files.read("named") == b'v1\n{"conf":{}}\n{"in":{"0":5}}\n-'
    assert files.read("plain") == b'v1\n{"conf":{}}\n{"in":{"0":5}}'
