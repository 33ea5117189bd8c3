"""Which of Spark's settings a pipeline may choose: not those that the platform decides or that have a field of their own."""

from kappa_crds.model import Rule

_SIZES = [
    "spark.executor.instances",
    "spark.executor.cores",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
]
_PINNED = [
    "spark.app.name", "spark.master", "spark.submit.deployMode", "spark.blockManager.port",
    "spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.sql.exchange.reuse",
]  # fmt: skip
_PINNED_PREFIXES = [
    "spark.kubernetes.",
    "spark.authenticate",
    "spark.network.crypto.",
    "spark.ssl.",
    "spark.io.encryption.",
]
_IS_PINNED = (
    f"(key in {_PINNED} || {_PINNED_PREFIXES}.exists(prefix, key.startsWith(prefix))"
    " || (key.startsWith('spark.driver.') && key != 'spark.driver.memory'))"
)
# Of Spark's settings of streaming most switch off a check (statefulOperator.checkCorrectness.enabled), change which rows are late
# (multipleWatermarkPolicy) or how state is written. Those that do not are named here, so that one of a later Spark is refused.
_STREAMING = "spark.sql.streaming."
_HARMLESS = [
    f"{_STREAMING}{name}"
    for name in (
        "asyncLogPurge.enabled", "maxBatchesToRetainInMemory", "metricsEnabled", "noDataMicroBatches.enabled",
        "noDataProgressEventInterval", "numRecentProgressUpdates", "pollingDelay",
        "sessionWindow.merge.sessions.in.local.partition",
    )
]  # fmt: skip
_IS_STREAMING = f"(key.startsWith('{_STREAMING}') && !(key in {_HARMLESS}))"
_IS_SIZE = f"(key in {[*_SIZES, 'spark.driver.memory']})"


def _refuse_settings(refused: str, message: str) -> Rule:
    """Build the rule that no key of sparkConf is refused; the message of the API server names the first refused one."""
    return Rule(
        f"!has(self.sparkConf) || self.sparkConf.all(key, !{refused})",
        f"spec.sparkConf sets {message}",
        f"'spec.sparkConf sets ' + self.sparkConf.filter(key, {refused})[0] + '; that is {message}'",
    )


SETTINGS_RULES = (
    Rule(
        "!has(self.sparkConf) || self.sparkConf.all(key, key.startsWith('spark.'))",
        "spec.sparkConf takes Spark's settings only; each key starts with spark.",
        "'spec.sparkConf has the key ' + self.sparkConf.filter(key, !key.startsWith('spark.'))[0]"
        " + '; it takes settings of Spark only, and each of them starts with spark.'",
    ),
    _refuse_settings(_IS_SIZE, "what spec.resources decides; set it there"),
    _refuse_settings(_IS_PINNED, "what the platform decides; remove it"),
    _refuse_settings(_IS_STREAMING, "what results or state depend on, so the platform decides it; remove it"),
)
"""Rules of a spec that has `sparkConf`."""
