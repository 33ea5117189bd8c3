"""Make the archive of classes (JEP 350) that drivers start from, while the image is built.

    python archive_classes.py order SPARK_HOME     gives the jars one order, and unpacks RocksDB's library
    python archive_classes.py desugar SPARK_HOME   gives lambda expressions of Scala ordinary classes
    python archive_classes.py record SPARK_HOME    makes SPARK_HOME/classes.jsa
    python archive_classes.py check SPARK_HOME     fails if it cannot be used

The JVM takes an archive only where its class path is the one that the archive was made with. Spark's is `jars/*`, in
whatever order the file system lists; so the jars move to `lib`, and `jars` keeps a single one, whose manifest lists
them in order. The launcher's jar is the first: Spark's scripts start a JVM of its own with it, which would open nearly all others before.
"""

import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STREAMING = "spark.sql.streaming"
_SETTINGS = {
    "spark.master": "local[1]",
    "spark.ui.enabled": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.extensions": "kappa.json.Extensions",
    f"{_STREAMING}.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STREAMING}.stateStore.checkpointFormatVersion": "2",
    f"{_STREAMING}.queryEvolution.enableSourceEvolution": "true",
    f"{_STREAMING}.offsetLog.formatVersion": "2",
    f"{_STREAMING}.checkpoint.fileChecksum.enabled": "true",
    f"{_STREAMING}.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager",
    "spark.hadoop.fs.file.impl": "kappa.files.LocalFiles",
}
"""Those of a driver that decide which classes it loads."""
_LAUNCHER, _OWN = "spark-launcher", "kappa-jvm.jar"
_SCALA = ("scala-library-*.jar", "scala-reflect-*.jar", "*_2.13-*.jar")
_ROCKSDB = {"x86_64": "librocksdbjni-linux64.so", "aarch64": "librocksdbjni-linux-aarch64.so"}
_SMALL_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_SIGNATURES = (".SF", ".DSA", ".RSA", ".EC")
_BY_NAME = (
    "org/apache/kafka/clients/",
    "org/apache/kafka/common/",
    "org/apache/spark/sql/kafka010/",
    "org/apache/commons/pool2/",
    "org/apache/spark/kafka010/",
    "org/apache/spark/sql/classic/",
    "org/apache/spark/sql/connector/read/",
    "org/apache/spark/sql/execution/datasources/v2/DataSource",
    "org/apache/spark/sql/execution/datasources/v2/MicroBatch",
    "org/apache/spark/sql/execution/datasources/v2/Streaming",
    "org/apache/spark/sql/internal/",
    "org/codehaus/commons/compiler/",
    "net/razorvine/pickle/",
    "kappa/",
)
"""Packages and names whose classes are loaded by name."""


def order_jars(spark: Path) -> None:
    """Move the jars to `lib` and leave one that refers to them."""
    jars, library = spark / "jars", spark / "lib"
    library.mkdir()
    found = sorted(jars.glob("*.jar"), key=lambda jar: (not jar.name.startswith(_LAUNCHER), jar.name))
    for jar in found:
        jar.rename(library / jar.name)
        _remove_signature(library / jar.name)
    names = " ".join(f"../lib/{jar.name}" for jar in found)
    entry = f"Class-Path: {names}"
    # A line of a manifest has at most 72 bytes; it goes on in the next one, after a space.
    lines = [entry[start : start + 70] for start in range(0, len(entry), 70)]
    manifest = "Manifest-Version: 1.0\r\n" + "\r\n ".join(lines) + "\r\n\r\n"
    with zipfile.ZipFile(jars / "spark.jar", "w") as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), manifest)
    _unpack_rocksdb(library, spark / "native")


def _unpack_rocksdb(library: Path, target: Path) -> None:
    """Write RocksDB's library where `LD_LIBRARY_PATH` has it: else each JVM writes its 15 MB to /tmp, and loads that copy."""
    target.mkdir()
    for jar in library.glob("rocksdbjni-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            (target / "librocksdbjni.so").write_bytes(archive.read(_ROCKSDB[platform.machine()]))


def _remove_signature(path: Path) -> None:
    """Write a signed jar without its signature: the JVM archives no class of a signed jar, and hashes each class that it loads from it.

    Two jars of Janino, Spark's compiler, are signed by a certificate named DUMMY, which proves nothing.
    """
    with zipfile.ZipFile(path) as signed:
        entries = [entry for entry in signed.infolist() if not entry.filename.endswith(_SIGNATURES)]
        if len(entries) == len(signed.infolist()):
            return
        part = path.with_suffix(".part")
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as unsigned:
            for entry in entries:
                unsigned.writestr(entry, signed.read(entry))
    part.replace(path)  # the file itself may be a link to another installation


def desugar_jars(spark: Path) -> None:
    """Give lambda expressions in the jars of Scala ordinary classes: the JVM archives none of those that it makes for them (ADR 90)."""
    library = spark / "lib"
    path = os.pathsep.join(map(str, [library / _OWN, *library.glob("xbean-asm9-shaded-*.jar")]))
    jars = sorted(str(jar) for pattern in _SCALA for jar in library.glob(pattern))
    subprocess.run(["java", *_SMALL_JVM, "-cp", path, "kappa.image.Desugar", *jars], check=True)


def record_classes(home: Path) -> None:
    """Run what every driver runs, in a JVM that archives its classes when it ends.

    The query reads rows, keeps state and writes, so Spark compiles code for it, as for a pipeline. No Kafka runs while an image is built,
    so the classes of its client are loaded by name.
    """
    os.environ |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession  # noqa: PLC0415 - reads the environment when it is imported

    options = f"-XX:ArchiveClassesAtExit={home}/classes.jsa -Xlog:cds=off"
    spark = (
        SparkSession.Builder()
        .config(map={**_SETTINGS, "spark.driver.defaultJavaOptions": options})
        .getOrCreate()
    )
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        _run_query(spark, Path(folder))
    options_of_kafka = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
    spark.readStream.name("kafka").format("kappa.kafka.Source").options(**options_of_kafka).load().explain()
    spark.sql("SHOW VIEWS").collect()
    _load_classes(spark._jvm, home)
    _open_clients(spark._jvm)
    spark.stop()
    process.stdin.close()  # the JVM ends with its input
    process.wait(300)


def _run_query(spark: "SparkSession", folder: Path) -> None:
    """Count in windows what is in a file."""
    source = folder / "rows"
    source.mkdir()
    rows = [f'{{"k": {n % 10}, "v": {n}.5, "t": "2026-01-01T00:{n % 60:02d}:00Z"}}' for n in range(200)]
    (source / "1").write_text("\n".join(rows))
    lines = spark.readStream.name("lines").text(str(source))
    parsed = lines.selectExpr("from_json(value, 'k BIGINT, v DOUBLE, t TIMESTAMP') AS r").select("r.*")
    parsed.withWatermark("t", "1 minute").createOrReplaceTempView("parsed")
    means = spark.sql(
        "SELECT window(t, '1 minute') AS w, k, avg(v) AS mean FROM parsed WHERE v > 1 GROUP BY 1, 2"
    )
    records = means.selectExpr("CAST(k AS STRING) AS key", "to_json(struct(*)) AS value")
    written = (
        records.writeStream.format("noop").outputMode("update").option("checkpointLocation", f"{folder}/log")
    )
    written.trigger(availableNow=True).start().awaitTermination()


def _load_classes(jvm: Any, home: Path) -> None:
    """Load classes by name. Those that refer to a library that is not there are left out."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - the image's own Python has it, the system's does not

    loader = jvm.java.lang.ClassLoader.getSystemClassLoader()
    for jar in sorted(home.glob("lib/*.jar")):
        with zipfile.ZipFile(jar) as archive:
            found = [
                name for name in archive.namelist() if name.startswith(_BY_NAME) and name.endswith(".class")
            ]
        for name in found:
            with contextlib.suppress(Py4JJavaError):
                jvm.java.lang.Class.forName(name.removesuffix(".class").replace("/", "."), False, loader)


def _open_clients(jvm: Any) -> None:
    """Open each client of Kafka without a broker, so that the archive has the lambda expressions that do not depend on its answers."""
    settings = jvm.java.util.Properties()
    strings, clients = "org.apache.kafka.common.serialization.String", jvm.org.apache.kafka.clients
    for kind in ("key", "value"):
        settings.put(f"{kind}.serializer", f"{strings}Serializer")
        settings.put(f"{kind}.deserializer", f"{strings}Deserializer")
    settings.put("bootstrap.servers", "127.0.0.1:1")
    moment = jvm.java.time.Duration.ofMillis(200)
    consumer = clients.consumer.KafkaConsumer(settings)
    partitions = jvm.java.util.List.of(jvm.org.apache.kafka.common.TopicPartition("none", 0))
    consumer.assign(partitions)
    consumer.seekToBeginning(partitions)
    consumer.poll(moment)
    consumer.close(moment)
    clients.producer.KafkaProducer(settings).close(moment)
    admin = clients.admin.Admin.create(settings)
    admin.describeTopics(jvm.java.util.List.of("none"))
    admin.close(moment)
    jvm.org.apache.kafka.common.protocol.Errors.values()


def check_archive(home: Path) -> None:
    """Fail the build if a JVM with a driver's class path cannot use the archive: later it would do without, in silence."""
    options = ["-Xshare:on", f"-XX:SharedArchiveFile={home}/classes.jsa"]
    subprocess.run(["java", *options, "-cp", f"{home}/conf/:{home}/jars/*", "-version"], check=True)


if __name__ == "__main__":
    steps = {"order": order_jars, "desugar": desugar_jars, "record": record_classes, "check": check_archive}
    steps[sys.argv[1]](Path(sys.argv[2]))
