"""Asks Kafka why a query failed, where Spark's words leave it open."""

from kappa_crds.reasons import Reason
from kappa_crds.revision import Revision
from kappa_pipelines.errors import DriverError, UnavailableError
from kappa_pipelines.preflight import fetch_topics

_UNSURE = {
    Reason.SOURCE_TOPIC_DELETED,
    Reason.KAFKA_UNAVAILABLE,
    Reason.OFFSETS_LOST,
    Reason.QUERY_FAILED,
}
_TIMEOUT_SECONDS = 10.0


def diagnose(error: DriverError, revision: Revision) -> DriverError:
    """Return a better error if a topic is gone or Kafka does not answer; else the same."""
    if error.reason not in _UNSURE:
        return error
    try:
        topics = fetch_topics(revision, _TIMEOUT_SECONDS)
    except UnavailableError as unavailable:
        return unavailable if error.retryable else error
    for source in revision.spec.sources:
        topic = revision.topics.get(source.topic, source.topic)
        if topic not in topics:
            return UnavailableError(
                Reason.SOURCE_TOPIC_DELETED,
                f"source {source.name!r}: the topic {topic!r} was deleted while the pipeline ran; make it again and"
                " reprocess, for the offsets in the checkpoint mean nothing in a new topic",
            )
    return error
