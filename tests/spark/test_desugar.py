"""Lambda expressions in the jars of Scala have ordinary classes, which the archive of classes can hold."""

import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from kappa_pipelines.jars import OWN, fetch_jars

SAMPLE = """
import java.io.*;
import java.util.function.*;

public class Sample {
    interface Triple { long of(int a, long b, double c); }

    public static String twice(String text) { return text + text; }

    public static long sum(int a, long b, double c) { return a + b + (long) c; }

    private static String hide(String text) { return "hidden " + text; }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        Function<String, String> first = null;
        for (int round = 0; round < 2; round++) {
            Function<String, String> found = (Function<String, String> & Serializable) Sample::twice;
            System.out.println(found.apply("a") + (first == null || first == found));
            first = found;
        }
        System.out.println(((Triple & Serializable) Sample::sum).of(1, 2L, 3.5));
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        new ObjectOutputStream(written).writeObject(first);
        Object read = new ObjectInputStream(new ByteArrayInputStream(written.toByteArray())).readObject();
        System.out.println(((Function<String, String>) read).apply("b"));
        Function<String, String> hidden = (Function<String, String> & Serializable) Sample::hide;
        System.out.println(hidden.apply("c"));
        System.err.println(first.getClass().isHidden() + " " + hidden.getClass().isHidden());
    }
}
"""


EXPECTED = ["aatrue", "aatrue", "6", "bb", "hidden c"]


@pytest.fixture(scope="module")
def jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample")
    (folder / "Sample.java").write_text(SAMPLE)
    subprocess.run(["javac", "-d", folder / "classes", folder / "Sample.java"], check=True)
    return Path(shutil.make_archive(str(folder / "sample"), "zip", folder / "classes"))


def desugar(jar: Path, target: Path) -> Path:
    own = next(str(each) for each in fetch_jars() if each.name == OWN)
    asm = next(Path(pyspark.__file__).parent.glob("jars/xbean-asm9-shaded-*.jar"))
    shutil.copy(jar, target)
    subprocess.run(["java", "-cp", f"{own}:{asm}", "kappa.image.Desugar", target], check=True)
    return target


def run_sample(jar: Path) -> tuple[list[str], str]:
    """Return what the sample prints, and whether the classes of an expression with a public and one with a private body are hidden."""
    command = ["java", "-Xverify:all", "-cp", str(jar), "Sample"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr.splitlines()[-1]


def test_a_desugared_jar_does_the_same_without_hidden_classes(jar: Path, tmp_path: Path) -> None:
    assert run_sample(jar) == (EXPECTED, "true true")
    made = desugar(jar, tmp_path / "sample.jar")
    assert run_sample(made) == (EXPECTED, "false true")
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
    assert {"Sample$$Lambda$0.class", "Sample$$Lambda$1.class"} <= set(names)


def test_a_jar_without_such_an_expression_stays_the_file_that_it_is(jar: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.jar"
    with zipfile.ZipFile(jar) as source, zipfile.ZipFile(plain, "w") as target:
        target.writestr("Sample$Triple.class", source.read("Sample$Triple.class"))
    assert desugar(plain, tmp_path / "same.jar").read_bytes() == plain.read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_an_expression_of_scala_has_an_ordinary_class(spark: SparkSession) -> None:
    """Fails where Spark is not the copy that `make` prepares."""
    jvm: Any = spark._jvm
    curried = jvm.org.apache.spark.sql.catalyst.expressions.And.curried()
    assert not curried.getClass().isHidden()
    copied = jvm.org.apache.commons.lang3.SerializationUtils.roundtrip(curried)
    assert copied.getClass().equals(curried.getClass())
