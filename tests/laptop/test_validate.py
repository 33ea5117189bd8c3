"""`kappa validate` as a user runs it: a process of its own, without a cluster and without Kafka."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from kappa_pipelines.errors import DriverError
from kappa_pipelines.laptop.compiled import describe_pipeline
from kappa_pipelines.laptop.console import FAILED, UNUSABLE
from lab.paths import REPOSITORY
from laptop.commands import kappa

EXAMPLES = sorted(
    file
    for file in (REPOSITORY / "pipelines" / "examples").rglob("*.yaml")
    if "kind: Pipeline\n" in file.read_text()
)
_WRONG = """
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: wrong}
spec:
  sources: [{name: flights, topic: flights, format: {json: {schema: "k STRING, v DOUBLE"}}}]
  views:
    - name: top
      sql: |
        SELECT k,
               max(w) AS best
        FROM other GROUP BY k
    - {name: other, sql: SELECT * FROM flights}
  sinks: [{name: log, from: top, kafka: {topic: best, key: [k]}, mode: update}]
---
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: typo}
spec: {sources: [], sinks: [], views: [{name: v, sql: SELECT a, b FROM c}]}
---
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: right}
spec:
  sources: [{name: flights, topic: flights, format: {json: {schema: "k STRING, v DOUBLE"}}}]
  views:
    - {name: second, sql: "SELECT k, 2 * v AS w FROM first"}
    - {name: first, sql: SELECT * FROM flights}
  sinks: [{name: log, from: second, kafka: {topic: doubled}}]
"""


_MORE = """
---
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: stranger}
spec:
  sources: [{name: flights, topic: flights, format: {json: {schema: "k STRING, v DOUBLE"}}}]
  views: [{name: mine, sql: SELECT * FROM first}]
  sinks: [{name: log, from: mine, kafka: {topic: copied}}]
---
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: windowed}
spec:
  sources:
    - {name: a, topic: a, format: {json: {schema: "k STRING, ts TIMESTAMP"}}, eventTime: {column: ts, watermark: 1m}}
    - {name: b, topic: b, format: {json: {schema: "k STRING, ts TIMESTAMP"}}, eventTime: {column: ts, watermark: 1m}}
  views:
    - {name: v, sql: "SELECT a.k FROM a JOIN b ON window(a.ts, '1 hour').start = window(b.ts, '1 hour').start"}
  sinks: [{name: log, from: v, kafka: {topic: joined}}]
---
apiVersion: kappa-platform.io/v1alpha1
kind: Pipeline
metadata: {name: blamed}
spec:
  sources: [{name: flights, topic: flights, format: {json: {schema: "k STRING, v DOUBLE"}}}]
  views:
    - {name: innocent, sql: "SELECT k, count(*) AS n FROM flights GROUP BY k", allowUnboundedState: true}
    - {name: guilty, sql: "SELECT k, max(v) AS top FROM flights GROUP BY k", allowUnboundedState: true}
    - {name: outer, sql: SELECT * FROM guilty}
  sinks:
    - {name: counts, from: innocent, kafka: {topic: counts, key: [k]}, mode: update}
    - {name: tops, from: outer, kafka: {topic: tops}}
"""


def validate(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("kappa")), "validate", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)


def test_each_pipeline_is_reported_separately_with_place_and_fix(tmp_path: Path) -> None:
    (tmp_path / "some.yaml").write_text(_WRONG + _MORE)
    done = validate("-f", str(tmp_path / "some.yaml"))
    assert done.returncode == FAILED, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("pipeline/wrong: UnknownColumn: view 'top', line 2, column 12:"), lines
    assert "'w'" in lines[0]
    assert lines[1].startswith("pipeline/typo: InvalidSpec: spec.sources: should have at least 1 items;"), (
        lines
    )
    assert 'unknown field "spec.views[0].b FROM c"' in lines[1]
    assert lines[2:4] == ["pipeline/right: valid", "  flights → second → topic doubled (append)"]
    assert lines[4].startswith(
        "pipeline/stranger: UnknownView: view 'mine': there is no source or view 'first'"
    )
    assert lines[5].startswith("pipeline/windowed: UnsupportedQuery: view 'v': window() has no meaning"), (
        lines[5]
    )
    assert lines[6].startswith("pipeline/blamed: UnsupportedQuery: view 'guilty' for sink 'tops'"), lines[6]
    assert "Exception" not in done.stderr


def test_every_example_is_valid(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    assert kappa("validate", [f"-f{file}" for file in EXAMPLES]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(EXAMPLES) > 0
    checked = [line for line in lines if line.startswith("pipeline/")]
    assert len(checked) >= len(EXAMPLES)
    assert [line for line in checked if not line.endswith(": valid")] == []


def test_what_spark_itself_fails_on_is_an_error_of_that_pipeline(spark: SparkSession) -> None:
    def fail(*_: object) -> list[str]:
        spark.sparkContext._jvm.java.lang.Integer.parseInt("x")  # type: ignore[union-attr]
        return []

    manifest = list(yaml.load_all(_WRONG, yaml.CSafeLoader))[2]
    with pytest.raises(DriverError, match="NumberFormatException"):
        describe_pipeline(manifest, fail)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [", "not YAML"),
        ("just words", "no kind"),
        (
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
            "no resource of kappa-platform.io/v1alpha1 found",
        ),
    ],
)
def test_a_file_without_resources_is_an_error_before_spark_starts(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file.yaml").write_text(text)
    assert kappa("validate", ["-f", str(tmp_path / "file.yaml")]) == UNUSABLE
    output = capsys.readouterr()
    assert said in output.err
    assert str(tmp_path / "file.yaml") in output.err
    assert output.out == ""
