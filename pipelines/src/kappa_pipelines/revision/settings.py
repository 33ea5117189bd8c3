"""The Spark settings that the runtime decides, and why.

Some are fixed when a checkpoint is created. Spark's defaults are unsafe or slow for a long-running stream:

- state in RocksDB instead of the JVM's heap: size is bounded by disk;
- checkpoint format 2: a stale snapshot of an abandoned attempt is never loaded (format 1 can corrupt state
  silently when a query is rewound);
- named sources with source evolution, which needs offset log 2: offsets are kept by the source's name, so that
  sources can be added, removed and reordered (Spark 4.2 does not raise the version of the log automatically);
- checksums of checkpoint files: damage is detected when they are read.
"""

from urllib.parse import urlsplit

from kappa_crds.quantities import parse_duration, parse_size
from kappa_crds.revision import Revision
from kappa_crds.state_settings import StateSettings
from kappa_crds.stores import BucketConnection, HdfsConnection
from kappa_pipelines.revision.java import FILE_SYSTEM, JAVA_OPTIONS, OF_DRIVER, OF_EXECUTORS

_STREAMING = "spark.sql.streaming"
_STATE_STORE = f"{_STREAMING}.stateStore"
_SNAPSHOT_EVERY = 10
CHECKSUM_THREADS = f"{_STATE_STORE}.fileChecksumThreadPoolSize"
_CHECKSUM_THREADS, _ALL_CHECKSUM_THREADS = 4, 400

CHECKPOINT_SETTINGS: dict[str, str] = {
    f"{_STATE_STORE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STATE_STORE}.checkpointFormatVersion": "2",
    f"{_STREAMING}.queryEvolution.enableSourceEvolution": "true",
    f"{_STREAMING}.offsetLog.formatVersion": "2",
    f"{_STREAMING}.checkpoint.fileChecksum.enabled": "true",
    # In Spark 4.2 this check fails on offset log 2 with `None.get` wherever the last batch was not committed: after
    # every crash. It looks for an unfinished repartitioning of the state, which this runtime does not do.
    f"{_STREAMING}.checkUnfinishedRepartitionOnRestart": "false",
}

# Hadoop's FileContext starts two programs (readlink) for each file that it renames on a local disk, sixty for a small batch; this
# manager renames it by one call of the kernel. On HDFS FileContext is the one whose rename is atomic, so it stays. The file
# system of `file:` must be set: Hive's library in Spark registers one that does not replace existing files. Ours starts no program for each
# file that it makes, as Hadoop's does to set its permissions.
LOCAL_FILES: dict[str, str] = {
    f"{_STREAMING}.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing"
    ".FileSystemBasedCheckpointFileManager",
    FILE_SYSTEM: "kappa.files.LocalFiles",
}

# FileContext does not support a mount table in which a folder is a mount and its parent is not. Ours writes each file under its own name
# (ADR 97). A file that is created takes no request before its content: `kappa.files.BucketFiles` checks itself where it must not replace one.
BUCKET_FILES: dict[str, str] = {
    f"{_STREAMING}.checkpointFileManagerClass": "kappa.files.BucketFiles",
    "spark.hadoop.fs.s3a.create.performance": "true",
}
_FILES = {"": LOCAL_FILES, "file": LOCAL_FILES, "s3a": BUCKET_FILES}
"""By the scheme of the checkpoint. A pipeline may have a bucket for something else, such as a savepoint that it is restored from."""
_LOCATE = "spark.hadoop.dfs.client.block.write.locateFollowingBlock"
_PROVIDERS = "software.amazon.awssdk.auth.credentials"

# The session's time zone decides what a timestamp without zone means; it must not depend on the machine.
SESSION_SETTINGS: dict[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    # Where a query aggregates a stream twice in the same way, Spark would compute the one exchange and use it twice. The
    # second aggregation then has no watermark below it in the plan: in Spark 4.2 it silently never closes a window.
    "spark.sql.exchange.reuse": "false",
    # Without these checks Spark starts queries with wrong results. The API server refuses to disable them, but a pipeline may have
    # been stored before that rule.
    f"{_STREAMING}.statefulOperator.checkCorrectness.enabled": "true",
    f"{_STREAMING}.unsupportedOperationCheck": "true",
    # What SQL could reach outside of the pipeline (ADR 42): text.`/path`, ${env:NAME} in a statement, a catalog, scripts.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.scripting.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

EXTENSIONS = "spark.sql.extensions"
NATIVE_JSON = "spark.sql.kappa.nativeJson"
"""Set to false, Spark's own functions read and write JSON."""
NATIVE_CHANGES = "spark.sql.kappa.nativeChangeEvents"
"""Set to false, expressions of Spark read all change events, as in releases before ADR 88."""
ONE_SIDED = "spark.sql.kappa.oneSidedState"
"""Set to false, sliding windows and as-of joins have the plan and the state of releases before ADR 81."""
NATIVE_TABLES = "spark.sql.kappa.nativeTables"
"""Set to false, joins of tables and lookups keep their state in Python, as releases before ADR 83."""
NATIVE_PATTERNS = "spark.sql.kappa.nativePatterns"
"""Set to false, patterns keep their state in Python, as releases before ADR 101."""
NATIVE_JOINS = "spark.sql.kappa.nativeJoins"
"""Set to false, joins of two streams are those of Spark, as in releases before ADR 102."""
SHARED_SCANS = "spark.sql.kappa.sharedScans"
"""Set to false, a query reads a source as often as it names it, as in releases before ADR 104."""

# Settings that the operator or the user may override.
DEFAULTS: dict[str, str] = {
    "spark.ui.enabled": "false",
    # Spark ends a driver after some executors were lost, three where there is one, and counts them over its whole life.
    "spark.executor.failuresValidityInterval": "1h",
    # Comparisons have a pool of their own beside the queries, which share one; within a pool jobs have their turns as before.
    "spark.scheduler.mode": "FAIR",
    OF_DRIVER: JAVA_OPTIONS,
    OF_EXECUTORS: JAVA_OPTIONS,
    # Reads and writes JSON faster than Spark (ADR 79).
    EXTENSIONS: "kappa.json.Extensions",
    ONE_SIDED: "true",
    NATIVE_TABLES: "true",
    NATIVE_PATTERNS: "true",
    NATIVE_JOINS: "true",
    SHARED_SCANS: "true",
    # Otherwise each operation on a column notes its line in the code of the runtime, for errors: five more requests to the JVM, and a
    # search of the stack there. Errors of SQL have the place in its text without them.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    "spark.sql.dataFrameQueryContext.enabled": "false",
}


def build_state_settings(state: StateSettings | None) -> dict[str, str]:
    """Return the settings of state stores. All are always set, as a session keeps earlier settings."""
    wanted, rocksdb = state or StateSettings(), f"{_STATE_STORE}.rocksdb"
    return {
        f"{rocksdb}.changelogCheckpointing.enabled": str(wanted.changelog).lower(),
        f"{rocksdb}.compression": wanted.compression.value,
        f"{rocksdb}.boundedMemoryUsage": "true",
        f"{rocksdb}.maxMemoryUsageMB": str(parse_size(wanted.max_memory) // 2**20),
        f"{_STATE_STORE}.minDeltasForSnapshot": str(wanted.snapshot_every or _SNAPSHOT_EVERY),
        f"{_STATE_STORE}.maintenanceInterval": f"{parse_duration(wanted.maintenance_interval) * 1000:.0f}ms",
        f"{_STREAMING}.minBatchesToRetain": str(wanted.retain_batches),
    }


def build_bucket_settings(bucket: BucketConnection | None) -> dict[str, str]:
    """Return the settings of Hadoop's client for a bucket; empty without one. Keys are in environment variables of the pods."""
    if bucket is None:
        return {}
    provider = "EnvironmentVariableCredentialsProvider" if bucket.has_keys else "DefaultCredentialsProvider"
    s3a = "spark.hadoop.fs.s3a"
    return {
        **({f"{s3a}.endpoint": bucket.endpoint} if bucket.endpoint else {}),
        f"{s3a}.endpoint.region": bucket.region,
        f"{s3a}.path.style.access": str(bucket.path_style).lower(),
        f"{s3a}.aws.credentials.provider": f"{_PROVIDERS}.{provider}",
    }


def build_hdfs_settings(hdfs: HdfsConnection | None) -> dict[str, str]:
    """Return the settings of Hadoop's client for HDFS; empty without it. The user is in an environment variable of the pods."""
    if hdfs is None:
        return {}
    return {
        "spark.hadoop.dfs.replication": str(hdfs.replication),
        # A file is closed when the namenode knows its block. Hadoop retries that check after 400 ms, but the small files of a batch need
        # only a few milliseconds; the wait doubles each time.
        f"{_LOCATE}.initial.delay.ms": "10",
        f"{_LOCATE}.retries": "12",
    }


def build_spark_settings(revision: Revision) -> dict[str, str]:
    """Return all settings of the session: defaults, then the revision's, then the fixed ones."""
    return {
        "spark.app.name": f"{revision.namespace}.{revision.pipeline}",
        **DEFAULTS,
        CHECKSUM_THREADS: _count_checksum_threads(revision),
        **revision.spark_conf,
        **_add_extensions(revision.spark_conf.get(EXTENSIONS)),
        **SESSION_SETTINGS,
        **CHECKPOINT_SETTINGS,
        **build_state_settings(revision.spec.state),
        **_FILES.get(urlsplit(revision.checkpoint).scheme, {}),
        **build_bucket_settings(revision.bucket),
        **build_hdfs_settings(revision.hdfs),
        "spark.sql.shuffle.partitions": str(revision.tuning.shuffle_partitions),
    }


def _count_checksum_threads(revision: Revision) -> str:
    """Return how many threads of its own each state partition in a JVM has for files and their checksums; 0 leaves them to the task.

    Spark's four save requests to a remote store one after the other. On a local disk they save nothing, and a JVM with 1,000 partitions
    had 4,000 of them.
    """
    if urlsplit(revision.checkpoint).scheme in ("", "file"):
        return "0"
    return str(min(_CHECKSUM_THREADS, _ALL_CHECKSUM_THREADS // revision.tuning.shuffle_partitions))


def _add_extensions(own: str | None) -> dict[str, str]:
    """Return the setting of extensions where a pipeline has own ones: they are beside the runtime's."""
    return {} if own is None else {EXTENSIONS: f"{own},{DEFAULTS[EXTENSIONS]}"}
