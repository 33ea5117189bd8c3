"""Files of a checkpoint on a local disk: their permissions are set by calls of the kernel, not by a program for each file."""

from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession


@pytest.fixture
def files(spark: SparkSession) -> Any:
    """Return the file system that a checkpoint on a local disk has."""
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    found = spark._jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf)  # type: ignore[union-attr]
    assert found.getClass().getName() == "kappa.files.LocalFiles"
    return found


def make_path(spark: SparkSession, path: Path) -> Any:
    return spark._jvm.org.apache.hadoop.fs.Path(str(path))  # type: ignore[union-attr]


def change_mode(spark: SparkSession, files: Any, path: Path, mode: int) -> int:
    permission = spark._jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:03o}")  # type: ignore[union-attr]
    files.setPermission(make_path(spark, path), permission)
    return S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o755, 0o777, 0o000])
def test_a_file_has_the_permissions_that_are_set(
    spark: SparkSession, files: Any, tmp_path: Path, mode: int
) -> None:
    files.create(make_path(spark, tmp_path / "file")).close()
    assert S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
    assert change_mode(spark, files, tmp_path / "file", mode) == mode


def test_the_sticky_bit_of_a_folder_is_set_too(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    files.mkdirs(make_path(spark, tmp_path / "folder"))
    assert change_mode(spark, files, tmp_path / "folder", 0o1777) == 0o1777


def test_no_program_sets_them(spark: SparkSession, files: Any, tmp_path: Path) -> None:
    """The error of a missing file is the one of a call; a program would have ended with an exit code."""
    with pytest.raises(Py4JJavaError, match=r"java\.nio\.file\.NoSuchFileException"):
        change_mode(spark, files, tmp_path / "missing", 0o600)
