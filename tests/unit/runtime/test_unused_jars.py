"""What the image leaves out fits the Spark that is installed."""

import runpy
from pathlib import Path
from typing import Any

import pyspark
import pytest

from lab.paths import REPOSITORY

PIPELINES = REPOSITORY / "pipelines"
HOME = Path(pyspark.__file__).parent


@pytest.fixture(scope="module")
def pruning() -> dict[str, Any]:
    return runpy.run_path(str(PIPELINES / "prune_jars.py"))


@pytest.fixture(scope="module")
def patterns(pruning: dict[str, Any]) -> list[str]:
    return list(pruning["read_patterns"]((PIPELINES / "unused-jars.txt").read_text()))


def test_each_pattern_has_a_jar_of_the_installed_spark(pruning: dict[str, Any], patterns: list[str]) -> None:
    names = {jar.name for jar in pruning["find_unused"](HOME / "jars", patterns)}
    assert {"derby-10.16.1.1.jar", "hive-metastore-2.3.10.jar"} <= names
    assert not any(name.startswith(("spark-sql", "spark-core", "hive-storage-api")) for name in names)


def test_a_pattern_without_a_jar_is_an_error(pruning: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no-such-\*\.jar"):
        pruning["find_unused"](HOME / "jars", ["derby-*.jar", "no-such-*.jar"])


def test_a_copy_lacks_the_archives_that_workers_would_load_instead_of_the_installed_package(
    pruning: dict[str, Any], tmp_path: Path
) -> None:
    archives = sorted(path.name for path in (HOME / "python" / "lib").glob("*.zip"))
    assert "pyspark.zip" in archives
    pruning["copy"](HOME, tmp_path / "copy")
    assert list((tmp_path / "copy" / "python" / "lib").iterdir()) == []
    assert sorted(path.name for path in (HOME / "python" / "lib").glob("*.zip")) == archives


def test_a_copy_lacks_the_jars_and_leaves_the_installed_ones(
    pruning: dict[str, Any], patterns: list[str], tmp_path: Path
) -> None:
    home, target = tmp_path / "home", tmp_path / "copy"
    (home / "jars" / "connect-repl").mkdir(parents=True)
    kept = home / "jars" / "spark-core_2.13-4.2.0.jar"
    for name in (kept.name, *(pattern.replace("*", "1").replace("[!s]", "x") for pattern in patterns)):
        (home / "jars" / name).touch()
    before = set((home / "jars").iterdir())
    pruning["copy"](home, target)
    assert [path.name for path in (target / "jars").iterdir()] == [kept.name]
    assert set((home / "jars").iterdir()) == before
