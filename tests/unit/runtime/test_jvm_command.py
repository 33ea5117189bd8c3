"""The command of a driver's JVM, compared with the one that Spark's scripts would run."""

import json
import os
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from pyspark.find_spark_home import _find_spark_home

from kappa_crds.revision import REVISION_DIR, REVISION_KEY
from kappa_pipelines.driver.jvm import (
    REVISION_FILE,
    build_command,
    complete,
    is_plain,
    start_early,
    start_plain,
)
from kappa_pipelines.revision.java import JAVA_OPTIONS, OF_DRIVER

SETTINGS = {
    "spark.master": "local[2]",
    "spark.jars": str(files("kappa_pipelines") / "kappa-jvm.jar"),
    "spark.driver.memory": "1g",
    "spark.driver.defaultJavaOptions": "-Da=1 '-Db=two words'",
    "spark.driver.extraJavaOptions": "-Dc=3",
    "spark.driver.extraClassPath": "/x/a.jar:/x/b.jar",
}
REVISION = {"sparkConf": {"spark.master": "local[2]", "spark.driver.memory": "256m"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spark's folder as in the image, where Java is a program that only waits."""
    home, java = tmp_path / "spark", tmp_path / "java" / "bin" / "java"
    for path in (home / "lib" / "kappa-jvm.jar", java):
        path.parent.mkdir(parents=True)
        path.touch()
    java.write_text("#!/bin/sh\nexec cat\n")
    java.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return home


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
    assert own[-1] == "kappa.start.Driver"


def test_java_is_the_one_of_java_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert build_command(SETTINGS)[0] == "/opt/java/bin/java"


def write_revision(tmp_path: Path, text: str = json.dumps(REVISION)) -> Path:
    (tmp_path / "revision.json").write_text(text)
    return tmp_path / "revision.json"


def test_the_file_of_a_revision_is_where_the_operator_puts_it() -> None:
    assert Path(REVISION_DIR) / REVISION_KEY == REVISION_FILE


def test_a_jvm_of_the_same_command_is_used(home: Path, tmp_path: Path) -> None:
    early = start_early(write_revision(tmp_path))
    assert early is not None
    assert "-Xmx256m" in early.command
    conf = {**REVISION["sparkConf"], "spark.sql.shuffle.partitions": "2"}
    try:
        assert start_plain(complete({OF_DRIVER: JAVA_OPTIONS, **conf}), early) is early
    finally:
        early.end()


def test_a_jvm_of_another_command_is_ended(home: Path, tmp_path: Path) -> None:
    early = start_early(write_revision(tmp_path))
    assert early is not None
    conf = {**REVISION["sparkConf"], "spark.driver.memory": "512m"}
    started = start_plain(complete({OF_DRIVER: JAVA_OPTIONS, **conf}), early)
    assert started is not None
    started.end()
    assert "-Xmx512m" in started.command
    assert early._process.poll() is not None


def test_so_is_one_where_the_scripts_of_spark_must_start_it(home: Path, tmp_path: Path) -> None:
    early = start_early(write_revision(tmp_path))
    assert early is not None
    assert start_plain(complete({OF_DRIVER: JAVA_OPTIONS, "spark.files": "/x"}), early) is None
    assert early._process.poll() is not None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"sparkConf": []}', '{"sparkConf": {"spark.driver.memory": 1}}']
)
def test_nothing_starts_for_what_is_no_revision(home: Path, tmp_path: Path, text: str) -> None:
    assert start_early(write_revision(tmp_path, text)) is None


def test_nor_without_its_file_or_without_java(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert start_early(tmp_path / "none.json") is None
    monkeypatch.setenv("JAVA_HOME", "/none")
    assert start_early(write_revision(tmp_path)) is None


def test_the_settings_of_a_session_are_written_with_their_lengths(home: Path, tmp_path: Path) -> None:
    """A text with any character is one setting: none can add another."""
    out = tmp_path / "read"
    (tmp_path / "java" / "bin" / "java").write_text(f"#!/bin/sh\nexec cat > {out}\n")
    jvm = start_early(write_revision(tmp_path))
    assert jvm is not None
    jvm.open_session({"a": "1\0b\n", "ä": ""})
    assert jvm._process.stdin is not None
    jvm._process.stdin.close()
    jvm._process.wait(10)
    jvm.end()
    read = out.read_bytes()
    assert read == b"\0\0\0\2\0\0\0\1a\0\0\0\x041\0b\n\0\0\0\2\xc3\xa4\0\0\0\0"


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
    assert is_plain({**SETTINGS, "spark.jars": f"{tmp_path}/a.jar,{SETTINGS['spark.jars']}"})


def test_without_the_jar_of_the_runtime_the_scripts_start_it() -> None:
    assert not is_plain({**SETTINGS, "spark.jars": ""})


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "PYSPARK_SUBMIT_ARGS"])
def test_so_is_what_the_environment_has_for_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/x")
    assert not is_plain(SETTINGS)


def test_so_are_files_of_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert is_plain(SETTINGS)
    (tmp_path / "conf").mkdir()
    assert not is_plain(SETTINGS)
