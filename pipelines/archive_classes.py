"""Make the archive of classes (JEP 350) that drivers start from, while the image is built.

    python archive_classes.py order SPARK_HOME     gives the jars one order
    python archive_classes.py record SPARK_HOME    makes SPARK_HOME/classes.jsa
    python archive_classes.py check SPARK_HOME     fails if it cannot be used

The JVM takes an archive only where its class path is the one that the archive was made with. Spark's is `jars/*`, in
whatever order the file system lists; so the jars move to `lib`, and `jars` keeps a single one, whose manifest lists
them in order.
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path


def order_jars(spark: Path) -> None:
    """Move the jars to `lib` and leave one that refers to them."""
    jars, library = spark / "jars", spark / "lib"
    library.mkdir()
    found = sorted(jars.glob("*.jar"))
    for jar in found:
        jar.rename(library / jar.name)
    names = " ".join(f"../lib/{jar.name}" for jar in found)
    entry = f"Class-Path: {names}"
    # A line of a manifest has at most 72 bytes; it goes on in the next one, after a space.
    lines = [entry[start : start + 70] for start in range(0, len(entry), 70)]
    manifest = "Manifest-Version: 1.0\r\n" + "\r\n ".join(lines) + "\r\n\r\n"
    with zipfile.ZipFile(jars / "spark.jar", "w") as archive:
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF"), manifest)


def record_classes(home: Path) -> None:
    """Run what every driver runs, in a JVM that archives its classes when it ends."""
    os.environ |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession  # noqa: PLC0415 - reads the environment when it is imported

    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.extensions": "kappa.json.Extensions",
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
        ".RocksDBStateStoreProvider",
        "spark.driver.defaultJavaOptions": f"-XX:ArchiveClassesAtExit={home}/classes.jsa -Xlog:cds=off",
    }
    builder = SparkSession.Builder()
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as folder:
        rows = (
            spark.readStream.format("rate")
            .load()
            .selectExpr("to_json(struct(value AS k, timestamp AS t)) AS v")
        )
        parsed = rows.selectExpr("from_json(v, 'k BIGINT, t TIMESTAMP') AS r").select("r.*")
        counted = parsed.withWatermark("t", "1 minute").groupBy("k").count()
        records = counted.selectExpr("CAST(k AS STRING) AS key", "to_json(struct(*)) AS value")
        query = records.writeStream.format("noop").outputMode("update").option("checkpointLocation", folder)
        query.trigger(once=True).start().awaitTermination()
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "none"}
    spark.readStream.format("kafka").options(**options).load().explain()
    spark.stop()
    process.stdin.close()  # the JVM ends with its input
    process.wait(300)


def check_archive(home: Path) -> None:
    """Fail the build if a JVM with a driver's class path cannot use the archive: later it would do without, in silence."""
    options = ["-Xshare:on", f"-XX:SharedArchiveFile={home}/classes.jsa"]
    subprocess.run(["java", *options, "-cp", f"{home}/conf/:{home}/jars/*", "-version"], check=True)


if __name__ == "__main__":
    {"order": order_jars, "record": record_classes, "check": check_archive}[sys.argv[1]](Path(sys.argv[2]))
