"""The thresholds, by dotted name. A name without a value and a value without a use are errors.

A name in angle brackets, such as <<pipelines.stalled.seconds>>, stands for a value; PromQL and Prometheus' templates have no such brackets.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from kappa_monitoring import MONITORING
from kappa_monitoring.errors import MonitoringError

CONFIG = MONITORING / "config.yaml"
PLACE = re.compile(r"<<([\w.]+)>>")


class Config:
    """Values by dotted name. It records which were used."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)
        self._used: set[str] = set()

    def get(self, name: str) -> str:
        """Return a value as it is to be written; raise MonitoringError."""
        if name not in self._values:
            raise MonitoringError(
                f"monitoring/config.yaml has no {name}; add it, or correct the name where it is used"
            )
        self._used.add(name)
        return self._values[name]

    def fill(self, text: str) -> str:
        """Return the text with all values filled in; raise MonitoringError."""
        return PLACE.sub(lambda found: self.get(found[1]), text)

    def check_used(self) -> None:
        """Raise MonitoringError if the config has values that were not used."""
        unused = sorted(self._values.keys() - self._used)
        if unused:
            raise MonitoringError(f"nothing uses {', '.join(unused)} of monitoring/config.yaml; take it out")


def load_config(path: Path = CONFIG, override: Mapping[str, str] | None = None) -> Config:
    """Read the config; `override` replaces values in tests, by dotted name."""
    values = dict(_flatten(yaml.safe_load(path.read_text())))
    for name, value in (override or {}).items():
        if name not in values:
            raise MonitoringError(f"{path} has no {name}, so it cannot be overridden")
        values[name] = value
    return Config(values)


def _flatten(node: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if not isinstance(node, dict):
        yield path, str(node)
        return
    for name, child in node.items():
        yield from _flatten(child, f"{path}.{name}" if path else str(name))
