"""Topic configs as specs write them, and as Kafka stores them.

Kafka parses a value by its type and shows it in its own spelling: `0.50` becomes `0.5`, `FALSE` becomes `false`,
`compact, delete` becomes `compact,delete`. Values are compared by what they mean.
"""

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from kappa_crds.quantities import format_duration, format_size, parse_duration, parse_size
from kappa_crds.topic import TopicSpec
from kappa_operator.kafka.model import TopicView

CLEANUP = "cleanup.policy"
RETENTION_TIME = "retention.ms"
RETENTION_SIZE = "retention.bytes"
_DESCRIBED = frozenset({CLEANUP, RETENTION_TIME, RETENTION_SIZE})
"""The configs that describe a topic in its status, whether the spec sets them or not."""


def get_topic_name(body: dict[str, Any]) -> str:
    """Return the name in Kafka that the JSON of a Topic claims."""
    return str(body.get("spec", {}).get("topicName") or body["metadata"]["name"])


def build_configs(spec: TopicSpec) -> dict[str, str]:
    """Return the configs that the spec declares; what it leaves out is not managed."""
    configs = {**spec.config, CLEANUP: spec.cleanup.value}
    if spec.retention and spec.retention.time:
        configs[RETENTION_TIME] = str(round(parse_duration(spec.retention.time) * 1000))
    if spec.retention and spec.retention.size:
        configs[RETENTION_SIZE] = str(parse_size(spec.retention.size))
    return dict(sorted(configs.items()))


def name_configs(spec: TopicSpec, managed: Iterable[str]) -> frozenset[str]:
    """Return the configs that a decision about a topic needs to see: declared ones, once declared ones, described ones."""
    return _DESCRIBED.union(build_configs(spec), managed)


def is_same_value(shown: str | None, wanted: str) -> bool:
    """Return whether Kafka's value means the same as the wanted one."""
    return shown is not None and (shown == wanted or _normalise(shown) == _normalise(wanted))


def is_same_cleanup(shown: str | None, wanted: str) -> bool:
    """Return whether two cleanup policies are the same, in any order."""
    return parse_cleanup(shown or "") == parse_cleanup(wanted)


def parse_cleanup(value: str) -> frozenset[str]:
    """Return the policies of a cleanup.policy value."""
    return frozenset(part.strip() for part in value.split(",") if part.strip())


def _normalise(value: str) -> str | Decimal | tuple[str, ...]:
    text = value.strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        return Decimal(text)
    except InvalidOperation:
        return tuple(part.strip() for part in text.split(","))


def describe_topic(view: TopicView) -> str:
    """Return a short text for people, such as `4 partitions · 30d`."""
    parts = ["1 partition" if view.partitions == 1 else f"{view.partitions} partitions"]
    policies = parse_cleanup(view.configs.get(CLEANUP, "delete"))
    if "compact" in policies:
        parts.append("compacted")
    if "delete" in policies:
        parts += _describe_retention(view)
    return " · ".join(parts)


def _describe_retention(view: TopicView) -> list[str]:
    time, size = view.configs.get(RETENTION_TIME), view.configs.get(RETENTION_SIZE, "-1")
    parts = []
    if time is not None:
        parts.append("retention unlimited" if int(time) < 0 else format_duration(int(time) / 1000))
    if int(size) >= 0:
        parts.append(f"{format_size(int(size))} per partition")
    return parts
