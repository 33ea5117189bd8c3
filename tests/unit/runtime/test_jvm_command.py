"""The command of a driver's JVM, compared with the one that Spark's scripts would run."""

import os
import subprocess
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from kappa_pipelines.driver.jvm import build_command, is_plain

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.defaultJavaOptions": "-Da=1 '-Db=two words'",
    "spark.driver.extraJavaOptions": "-Dc=3",
    "spark.driver.extraClassPath": "/x/a.jar:/x/b.jar",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("SPARK_", "PYSPARK_", "HADOOP_")):
            monkeypatch.delenv(name)


def read_command_of_spark() -> list[str]:
    """Return what Spark's launcher prints for its scripts, without the last part: `SparkSubmit` with its arguments."""
    arguments = [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
    launcher = ["java", "-cp", f"{_find_spark_home()}/jars/*", "org.apache.spark.launcher.Main"]
    printed = subprocess.run(
        [*launcher, "org.apache.spark.deploy.SparkSubmit", *arguments, "pyspark-shell"],
        capture_output=True,
        env={**os.environ, "SPARK_HOME": _find_spark_home(), "SPARK_SCALA_VERSION": "2.13"},
        text=True,
        check=True,
    ).stdout
    parts = [part for part in printed.strip().split("\0") if part.strip()]
    return parts[: parts.index("org.apache.spark.deploy.SparkSubmit")]


def test_the_jvm_has_the_options_of_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dd=4")
    own, of_spark = build_command(SETTINGS), read_command_of_spark()
    # A driver has no Derby, Hive's database.
    wanted = [part for part in of_spark[1:] if not part.startswith("-Dderby.")]
    assert Path(of_spark[0]).name == own[0] == "java"
    assert own[1:-1] == wanted
    assert own[-1] == "org.apache.spark.api.python.PythonGatewayServer"


def test_java_is_the_one_of_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert build_command(SETTINGS)[0] == "/opt/java/bin/java"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.jars", "https://example.com/a.jar"),
        ("spark.jars", "/not/there.jar"),
        ("spark.jars.packages", "a:b:1"),
        ("spark.files", "/x"),
        ("spark.submit.pyFiles", "/x.py"),
        ("spark.driver.extraLibraryPath", "/x"),
    ],
)
def test_what_only_the_scripts_of_spark_read_is_left_to_them(key: str, value: str) -> None:
    assert is_plain(SETTINGS)
    assert not is_plain({**SETTINGS, key: value})


def test_a_jar_that_is_there_needs_no_script(tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    assert is_plain({**SETTINGS, "spark.jars": f"{tmp_path}/a.jar"})


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "PYSPARK_SUBMIT_ARGS"])
def test_so_is_what_the_environment_has_for_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/x")
    assert not is_plain(SETTINGS)


def test_so_are_files_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert is_plain(SETTINGS)
    (tmp_path / "conf").mkdir()
    assert not is_plain(SETTINGS)
