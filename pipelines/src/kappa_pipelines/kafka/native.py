"""Which data sources read and write topics: those of the Java module, or Spark's own.

Those of the module have the options, columns, offsets and errors of Spark's, so a checkpoint fits both ([ADR 91]). In real-time mode
Spark allows only its own ones for streams.
"""

from collections.abc import Mapping

from kappa_crds import batches
from kappa_crds.revision import Revision

SPARK = "kafka"
_SOURCE, _SINK = "kappa.kafka.Source", "kappa.kafka.Sink"


def find_source_format(revision: Revision) -> str:
    """Return the format of the streams of a revision."""
    return _SOURCE if is_native(revision) else SPARK


def find_table_format(conf: Mapping[str, str]) -> str:
    """Return the format of tables of records, also beside a stream in real-time mode; `conf` are the settings of the revision."""
    return _SOURCE if batches.is_enabled(conf) else SPARK


def find_sink_format(revision: Revision) -> str:
    """Return the format of its sinks that write at least once."""
    return _SINK if is_native(revision) else SPARK


def is_native(revision: Revision) -> bool:
    """Return whether topics are read and written by the module."""
    return batches.is_native(revision.spec.trigger, revision.spark_conf)
