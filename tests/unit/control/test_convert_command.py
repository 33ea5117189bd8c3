"""`kappa convert` prints manifests of release 0.1 with the present names, and keeps comments and layout."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from kappa_crds.conversion import convert
from kappa_operator.cli.app import app
from kappa_operator.cli.convert import convert_text

OLD = Path(__file__).parents[1] / "crds" / "release_0_1_manifests.yaml"
FLOW = """\
# Counts.
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: delays}
spec:
  sources: [{name: flights, topic: flights}]   # stays
  sinks:
    # The log.
    - {name: log, from: hourly, topic: delays, key: [hour], mode: update}  # one record for each hour
    - name: more
      from: hourly
      topic: more    # a topic of its own
      key: [hour, origin]
      mode: update
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}   # not ours
data: {pause: "true"}
---
apiVersion: kappa-platform.io/v1alpha1
kind: Topic
metadata: {name: delays}
spec: {pause: true}   # for now
"""


def test_comments_and_layout_stay() -> None:
    text, is_exact = convert_text(FLOW)
    assert is_exact
    assert (
        "    - {name: log, from: hourly, kafka: {topic: delays, key: [hour]}, mode: update}  # one record for each hour\n"
        in text
    )
    assert (
        "      kafka: {topic: more, key: [hour, origin]}    # a topic of its own\n      mode: update\n"
        in text
    )
    assert "spec: {suspend: true}   # for now" in text
    for comment in ("# Counts.", "# stays", "# The log.", "# not ours"):
        assert comment in text
    assert 'data: {pause: "true"}' in text


def test_every_manifest_of_release_0_1_is_converted_as_the_operator_converts_it() -> None:
    text, _ = convert_text(OLD.read_text())
    wanted = [convert(each["kind"], each) for each in yaml.load_all(OLD.read_text(), yaml.CSafeLoader)]
    assert list(yaml.load_all(text, yaml.CSafeLoader)) == wanted
    assert convert_text(text)[0] == text, "once is enough"


def test_a_text_that_cannot_be_edited_in_place_is_rewritten_and_reported(tmp_path: Path) -> None:
    block = FLOW.replace("      key: [hour, origin]\n", "      key:\n        - hour\n        - origin\n")
    path = tmp_path / "pipeline.yaml"
    path.write_text(block)
    done = CliRunner().invoke(app, ["convert", str(path)])
    assert done.exit_code == 0
    assert "comments could not be kept" in done.stderr
    sinks = next(yaml.load_all(done.stdout, yaml.CSafeLoader))["spec"]["sinks"]
    assert [sink["kafka"]["topic"] for sink in sinks] == ["delays", "more"]


@pytest.mark.parametrize("style", [True, False])
def test_manifests_in_either_style_are_converted(style: bool) -> None:
    documents = list(yaml.load_all(OLD.read_text(), yaml.CSafeLoader))
    text, _ = convert_text(yaml.safe_dump_all(documents, default_flow_style=style))
    assert list(yaml.load_all(text, yaml.CSafeLoader)) == [convert(each["kind"], each) for each in documents]
