"""The options of the JVMs, and why. It loads nothing: the JVM of a driver starts before anything else is loaded (ADR 93)."""

FILE_SYSTEM, HADOOP_FILES = "spark.hadoop.fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem"
OF_DRIVER, OF_EXECUTORS = "spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"

# Avro reads the length of a text or list from the data. Invalid data may have a length of gigabytes, which would end the JVM at
# each attempt. No Kafka record is that long.
_AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{name}.maxLength={limit}"
    for name, limit in {"string": 2**26, "bytes": 2**26, "collectionItems": 2**22}.items()
)
# A third of the processor time of a start was C2's, which compiled what runs only while a driver starts. A method is compiled by it after ten
# times as many calls and loops as by default: what runs for each record has had them within seconds. Until then C1 compiles it without
# counting for C2 while C2 has anything to do.
_LATE_C2 = {
    "Tier4InvocationThreshold": 50_000,
    "Tier4MinInvocationThreshold": 6_000,
    "Tier4CompileThreshold": 150_000,
    "Tier4BackEdgeThreshold": 400_000,
    "Tier3DelayOn": 0,
}
# C1 copies less of other methods into each: what runs only at the start is smaller, and what runs for each record is compiled by C2 later.
_SMALL_C1 = "-XX:C1MaxInlineSize=6"
JAVA_OPTIONS = " ".join(
    [
        "-XX:+ExitOnOutOfMemoryError",
        _SMALL_C1,
        *(f"-XX:{name}={value}" for name, value in _LATE_C2.items()),
        _AVRO_LIMITS,
    ]
)
