"""The classes that a JVM finds from its start, on a laptop and in an image."""

from pathlib import Path

import pytest

from kappa_pipelines.driver.jvm import _find_classes
from kappa_pipelines.revision.java import FILE_SYSTEM, HADOOP_FILES
from kappa_pipelines.revision.settings import LOCAL_FILES

OWN = "/package/kappa-jvm.jar"
SETTINGS = {**LOCAL_FILES, "spark.jars": f"/cache/kafka.jar,{OWN}"}
CLASS_PATH = "spark.driver.extraClassPath"


@pytest.fixture
def spark_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    return tmp_path / "jars"


def test_jars_that_spark_lacks_are_on_the_class_path(spark_jars: Path) -> None:
    assert _find_classes(SETTINGS) == {**SETTINGS, CLASS_PATH: f"/cache/kafka.jar:{OWN}"}


@pytest.mark.parametrize("folder", ["jars", "lib"])
def test_jars_of_spark_keep_their_place(spark_jars: Path, folder: str) -> None:
    """In the image they are in `lib`, and `jars` has one that lists them."""
    for name in ("kafka.jar", "kappa-jvm.jar"):
        jar = spark_jars.parent / folder / name
        jar.parent.mkdir(exist_ok=True)
        jar.touch()
    assert _find_classes(SETTINGS) == SETTINGS
    assert _find_classes(LOCAL_FILES) == LOCAL_FILES


def test_without_its_own_jar_a_driver_has_the_files_of_hadoop(spark_jars: Path) -> None:
    found = _find_classes({**LOCAL_FILES, "spark.jars": "/cache/kafka.jar"})
    assert (found[FILE_SYSTEM], found[CLASS_PATH]) == (HADOOP_FILES, "/cache/kafka.jar")
    assert _find_classes({"spark.app.name": "diff"}) == {"spark.app.name": "diff"}
