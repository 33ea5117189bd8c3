"""What C2 leaves out in a driver, as the JVM reads it."""

import re
import subprocess
from importlib.resources import files

import pytest


@pytest.fixture(scope="module")
def shown() -> str:
    """Return what a JVM shows of its directives. It ends with an error where it cannot read them."""
    options = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+CompilerDirectivesPrint"]
    file = f"-XX:CompilerDirectivesFile={files('kappa_pipelines') / 'compiler.directives'}"
    return subprocess.run(
        ["java", *options, file, "-version"], check=True, capture_output=True, text=True
    ).stdout


def test_the_jvm_excludes_them_from_c2_alone(shown: str) -> None:
    own, _, _ = shown.partition("Directive: (default)")
    assert "org/codehaus/*.*" in own
    assert re.findall(r" Exclude:(\w+)", own) == ["false", "true"]  # of C1 and of C2


@pytest.mark.parametrize("hot", ["org/apache/spark", "org/apache/kafka", "kappa", "org/rocksdb", "java/util"])
def test_nothing_that_runs_for_each_record_is_among_them(hot: str) -> None:
    text = (files("kappa_pipelines") / "compiler.directives").read_text()
    patterns = re.findall(r'"([^"]+)"', text)
    assert patterns
    assert not [each for each in patterns if each.startswith((hot, "*"))]
