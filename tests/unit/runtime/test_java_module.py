"""The jar of the Java module: built when its sources change, and each time the same."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from kappa_pipelines.jars import OWN
from lab.paths import REPOSITORY

MODULE = REPOSITORY / "pipelines" / "jvm"


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    return runpy.run_path(str(MODULE / "build.py"))


def test_a_jar_is_built_again_when_a_source_changes_and_the_same_sources_give_the_same_jar(
    program: dict[str, Any], tmp_path: Path
) -> None:
    source, jars = tmp_path / "src" / "A.java", [tmp_path / "a" / OWN, tmp_path / "b" / OWN]
    source.parent.mkdir()
    source.write_text("final class A {}")
    build = program["build"]
    assert [build(jar, source.parent) for jar in jars] == [True, True]
    assert jars[0].read_bytes() == jars[1].read_bytes()
    jars[1].write_bytes(b"damaged")
    assert not build(jars[0], source.parent)
    source.write_text("final class A { int a; }")
    assert build(jars[0], source.parent)
    assert jars[0].read_bytes() != jars[1].read_bytes()
    assert [path.name for path in jars[0].parent.iterdir()] == [OWN]


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("class A { int a = 1L; }", "incompatible types"),
        ("class A implements java.io.Serializable {}", "serialVersionUID"),
    ],
)
def test_errors_and_warnings_of_the_compiler_fail_the_build_and_leave_the_jar(
    program: dict[str, Any], tmp_path: Path, source: str, cause: str
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "A.java").write_text(source)
    (tmp_path / OWN).write_bytes(b"old")
    with pytest.raises(SystemExit, match=cause):
        program["build"](tmp_path / OWN, tmp_path / "src")
    assert (tmp_path / OWN).read_bytes() == b"old"
