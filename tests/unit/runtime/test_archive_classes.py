"""The jars of the image as its archive of classes needs them."""

import os
import runpy
import zipfile
from pathlib import Path
from typing import Any

import pytest

from lab.paths import REPOSITORY

SIGNED = ("META-INF/MANIFEST.MF", "META-INF/DUMMY.SF", "META-INF/DUMMY.DSA", "x/A.class")


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    return runpy.run_path(str(REPOSITORY / "pipelines" / "archive_classes.py"))


def write_jar(path: Path, *names: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        for name in names:
            jar.writestr(name, f"content of {name}")
    return path


def list_entries(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as jar:
        return {name: jar.read(name).decode() for name in jar.namelist()}


def test_one_jar_lists_all_others_in_their_order(program: dict[str, Any], tmp_path: Path) -> None:
    names = [f"jar-with-a-long-name-{number}.jar" for number in range(9)]
    for name in reversed(names):
        write_jar(tmp_path / "jars" / name, "x/A.class")
    program["order_jars"](tmp_path)
    assert sorted(path.name for path in (tmp_path / "lib").iterdir()) == names
    assert [path.name for path in (tmp_path / "jars").iterdir()] == ["spark.jar"]
    manifest = list_entries(tmp_path / "jars" / "spark.jar")["META-INF/MANIFEST.MF"]
    assert all(len(line) <= 72 for line in manifest.split("\r\n"))
    unfolded = manifest.replace("\r\n ", "")
    assert f"Class-Path: {' '.join(f'../lib/{name}' for name in names)}\r\n" in unfolded


def test_the_launcher_comes_first(program: dict[str, Any], tmp_path: Path) -> None:
    for name in ("a.jar", "spark-launcher_2.13-4.2.0.jar", "z.jar"):
        write_jar(tmp_path / "jars" / name, "x/A.class")
    program["order_jars"](tmp_path)
    manifest = list_entries(tmp_path / "jars" / "spark.jar")["META-INF/MANIFEST.MF"].replace("\r\n ", "")
    assert "Class-Path: ../lib/spark-launcher_2.13-4.2.0.jar ../lib/a.jar ../lib/z.jar\r\n" in manifest


@pytest.mark.parametrize(("machine", "part"), [("x86_64", "linux64"), ("aarch64", "linux-aarch64")])
def test_the_library_of_rocksdb_is_that_of_the_machine(
    program: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, part: str
) -> None:
    names = [f"librocksdbjni-{each}.so" for each in ("linux64", "linux-aarch64", "linux64-musl")]
    write_jar(tmp_path / "jars" / "rocksdbjni-9.jar", *names)
    monkeypatch.setattr("platform.machine", lambda: machine)
    program["order_jars"](tmp_path)
    found = (tmp_path / "native" / "librocksdbjni.so").read_text()
    assert found == f"content of librocksdbjni-{part}.so"


def test_a_signature_is_removed_only_from_the_copy(program: dict[str, Any], tmp_path: Path) -> None:
    installed = write_jar(tmp_path / "installed" / "janino.jar", *SIGNED)
    (tmp_path / "jars").mkdir()
    os.link(installed, tmp_path / "jars" / "janino.jar")
    program["order_jars"](tmp_path)
    left = list_entries(tmp_path / "lib" / "janino.jar")
    assert left == {name: f"content of {name}" for name in (SIGNED[0], SIGNED[3])}
    assert tuple(list_entries(installed)) == SIGNED


def test_a_jar_without_a_signature_stays_the_file_that_it_is(program: dict[str, Any], tmp_path: Path) -> None:
    jar = write_jar(tmp_path / "jars" / "a.jar", "META-INF/MANIFEST.MF", "x/A.class")
    before = jar.stat().st_ino
    program["order_jars"](tmp_path)
    assert (tmp_path / "lib" / "a.jar").stat().st_ino == before
