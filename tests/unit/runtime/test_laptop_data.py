"""Records of a folder as batches: one file for each topic."""

from pathlib import Path
from typing import Any

import pytest

from kappa_crds.manifests import ManifestError
from kappa_crds.pipeline import PipelineSpec
from kappa_pipelines.laptop.cases import check_case, parse_case, split_input
from kappa_pipelines.laptop.data import read_batches
from kappa_pipelines.laptop.manifests import read_tests
from lab.paths import REPOSITORY


def _spec(**reads: Any) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "sources": [{"name": "flights", "format": {"raw": {}}, **reads}],
            "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}],
        }
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("f-2012.csv", "f-2013.records.jsonl", "off-f-2013.csv"):
        line = '{"value": "x"}' if "records" in name else "x"
        (tmp_path / name).write_text(f"{line}\n" * 3)
    return tmp_path


@pytest.mark.parametrize("reads", [{"topics": ["f-2012", "f-2013"]}, {"topicPattern": "f-.*"}], ids=str)
def test_each_batch_takes_from_every_topic_of_a_source(folder: Path, reads: dict[str, Any]) -> None:
    batches = [
        [record.topic for record in batch["flights"]] for batch in read_batches(folder, _spec(**reads), 4)
    ]
    assert batches == [["f-2012", "f-2012", "f-2013", "f-2013"], ["f-2012", "f-2013"]]


def test_a_pattern_without_a_file_is_reported(folder: Path) -> None:
    with pytest.raises(ManifestError, match="no records of a topic like g-"):
        next(read_batches(folder, _spec(topicPattern="g-.*"), 4))


def _case(topic: str) -> dict[str, Any]:
    spec = {"pipeline": "p", "input": [{"value": "x", "topic": topic}], "expect": {}}
    return {"apiVersion": "v", "kind": "PipelineTest", "metadata": {"name": "t"}, "spec": spec}


def test_a_record_of_a_test_case_may_name_its_topic() -> None:
    spec, case = _spec(topicPattern="f-.*"), parse_case(_case("f-9"))
    check_case(case, spec)
    ((records, _),) = split_input(case.spec.input, spec)
    assert [record.topic for record in records["flights"]] == ["f-9"]


def test_a_topic_outside_of_the_source_is_reported() -> None:
    with pytest.raises(ManifestError, match="does not read 'g-9', only topics like f-"):
        check_case(parse_case(_case("g-9")), _spec(topicPattern="f-.*"))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"vlue": "x"}, "unknown field \"spec.input[0].vlue\"; did you mean 'value'?"),
        ({"mark": "ends"}, 'spec.input[0].mark: Unsupported value: "ends": supported values: "batch", "stop", "abort", "end"'),
        ({"value": "x", "timestamp": 5}, "spec.input[0].timestamp: must be of type string, not integer"),
        ({"value": "x", "timestamp": "soon"}, "spec.input[0].timestamp: "),
        ({}, "spec.input[0]: a step has either a `value` or a `mark`"),
        ({"mark": "end", "key": "k"}, "spec.input[0]: a step with a `mark` has no other field"),
    ],
    ids=str,
)  # fmt: skip
def test_an_error_of_a_test_case_names_its_field(step: dict[str, Any], message: str) -> None:
    case = _case("f-9")
    case["spec"]["input"] = [step]
    with pytest.raises(ManifestError) as refused:
        parse_case(case)
    assert str(refused.value).startswith(f"test 't': {message}")


@pytest.mark.parametrize(
    "file", sorted((REPOSITORY / "pipelines" / "examples").glob("*/tests/*.kappatest")), ids=str
)
def test_the_test_cases_of_the_examples_are_valid(file: Path) -> None:
    assert read_tests([str(file)]).cases
