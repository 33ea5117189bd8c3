"""The session of a comparison: beside the one of the queries, in the same Spark, with settings of its own."""

from pyspark.sql import SparkSession

POOL = "comparison"
"""The scheduler pool of a comparison's jobs. With FAIR scheduling the queries beside it get their half of the cores."""
TASK_RECORDS = 250_000
"""Records in a partition of a shuffle."""
_LEAST_PARTITIONS = 2
_SETTINGS = {
    # Spark's older reader of Kafka converts each record to a row of Python's kind and back.
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.adaptive.enabled": "true",
    # JSON has names that differ in case only.
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    # Bounds the memory of Python's workers: a value may have megabytes.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**24),
}


def name_jobs(spark: SparkSession, group: str) -> None:
    """Give the jobs that this thread starts from now on a group and the pool."""
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", POOL)
    spark.sparkContext.setJobGroup(group, "comparison")


def count_tasks(spark: SparkSession, group: str) -> tuple[int, int]:
    """Return how many tasks of a group's running jobs are done, and how many there are."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = {stage for job in jobs if job is not None and job.status == "RUNNING" for stage in job.stageIds}
    found = [stage for stage in map(tracker.getStageInfo, stages) if stage is not None]
    return sum(each.numCompletedTasks for each in found), sum(each.numTasks for each in found)


def open_session(spark: SparkSession, records: int) -> SparkSession:
    """Return a session in the same Spark, for so many records of both sides."""
    session = spark.newSession()
    parts = max(_LEAST_PARTITIONS, records // TASK_RECORDS)
    for key, value in {**_SETTINGS, "spark.sql.shuffle.partitions": str(parts)}.items():
        session.conf.set(key, value)
    return session
