"""The folder from which the JVMs of tests start: one for each content, used only when complete, and kept while it is used."""

import os
import time
from pathlib import Path

import pytest

from lab import spark_home


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(spark_home, "CACHE", tmp_path)
    return tmp_path


def test_other_sources_or_another_jvm_have_another_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = spark_home.folder()
    assert own == spark_home.folder()
    (tmp_path / "release").write_text("JAVA_VERSION=99")
    monkeypatch.setattr(spark_home, "_describe_java", lambda: tmp_path / "release")
    assert spark_home.folder() != own


def test_a_folder_without_its_archive_is_not_used() -> None:
    home = spark_home.folder()
    home.mkdir()
    assert spark_home.environment() == {}
    archive = spark_home.class_archive(home)
    archive.touch()
    assert spark_home.environment() == {
        "SPARK_HOME": str(home),
        "KAPPA_CLASS_ARCHIVE": str(archive),
        "LD_LIBRARY_PATH": str(home / "native"),
    }


def test_folders_that_nothing_used_for_a_week_are_removed(cache: Path) -> None:
    spark_home.class_archive(spark_home.folder()).parent.mkdir()
    spark_home.class_archive(spark_home.folder()).touch()
    old, used = cache / "spark-old", cache / "spark-used"
    for folder in (old, used):
        folder.mkdir()
        spark_home.class_archive(folder).touch()
    long_ago = time.time() - 8 * 86_400
    for path in (spark_home.class_archive(old), used):
        os.utime(path, (long_ago, long_ago))
    assert spark_home.ensure() == spark_home.folder()
    assert sorted(path.name for path in cache.glob("spark-*")) == sorted(
        [spark_home.folder().name, "spark-used"]
    )
