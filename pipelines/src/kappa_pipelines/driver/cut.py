"""Checks of a point in the input that queries have to reach, and their offsets there. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from kappa_crds.progress import InputVector, find_common_cut
from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets, parse_kafka_offsets
from kappa_pipelines.driver.bound import Vector
from kappa_pipelines.kafka.subscription import Subscription
from kappa_pipelines.sources.idle import IDLE_SUFFIX, TIME


@dataclass(frozen=True)
class CutRefusedError(Exception):
    """A driver cannot advance to this point."""

    message: str


def find_position(bounds: Mapping[str, Vector]) -> InputVector:
    """Return the point of queries by their bounds: the highest offset of each partition, the latest idle time of each source."""
    return find_common_cut(
        InputVector(
            offsets=nest_offsets(parse_kafka_offsets(at)) if not name.endswith(IDLE_SUFFIX) else {},
            idle={name.removesuffix(IDLE_SUFFIX): int(at[TIME])} if name.endswith(IDLE_SUFFIX) else {},
        )
        for vector in bounds.values()
        for name, at in vector.items()
    )


def find_ends(
    sink: str,
    bound: Vector,
    target: InputVector,
    subscriptions: Mapping[str, Subscription],
    log_ends: Offsets,
) -> dict[str, Offsets]:
    """Return the ends of a query's sources at a target; CutRefusedError if the query cannot get there.

    `bound` is where the query has read up to, `log_ends` has the end of each partition of its sources in Kafka.
    """
    cut = parse_kafka_offsets(target.offsets)
    ends: dict[str, Offsets] = {}
    for name, subscription in subscriptions.items():
        ends[name] = {at: offset for at, offset in cut.items() if subscription.covers(at[0])}
        _check_reached(sink, parse_kafka_offsets(bound.get(name)), ends[name])
        _check_log(ends[name], log_ends)
    return ends


def _check_reached(sink: str, reached: Offsets, ends: Offsets) -> None:
    for (topic, part), offset in reached.items():
        if (topic, part) not in ends:
            raise CutRefusedError(
                f"the cut has no offset for partition {part} of topic {topic}, which sink {sink!r} reads"
            )
        if ends[topic, part] < offset:
            raise CutRefusedError(
                f"the cut is at offset {ends[topic, part]} of partition {part} of topic {topic}, and sink {sink!r} has read up to"
                f" {offset}"
            )


def _check_log(ends: Offsets, log_ends: Offsets) -> None:
    for (topic, part), offset in ends.items():
        end = log_ends.get((topic, part))
        if end is None:
            raise CutRefusedError(
                f"the cut names partition {part} of topic {topic}, which Kafka does not have"
            )
        if end < offset:
            raise CutRefusedError(
                f"the cut is at offset {offset} of partition {part} of topic {topic}, and the log ends at {end}"
            )
