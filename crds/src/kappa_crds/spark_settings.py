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
    "spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.sql.exchange.reuse", "spark.sql.streaming.checkpointLocation",
    "spark.sql.streaming.minBatchesToRetain", "spark.sql.streaming.offsetLog.formatVersion",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution",
]  # fmt: skip
_IS_PINNED = (
    f"(key in {_PINNED} || key.startsWith('spark.kubernetes.') || key.startsWith('spark.sql.streaming.stateStore.')"
    " || (key.startsWith('spark.driver.') && key != 'spark.driver.memory'))"
)
_IS_SIZE = f"(key in {[*_SIZES, 'spark.driver.memory']})"


def _refuse_settings(refused: str, message: str) -> Rule:
    """Build the rule that no key of sparkConf is refused; what the API server says names the first that is."""
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
)
"""Rules of a spec that has `sparkConf`."""
