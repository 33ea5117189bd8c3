"""Rules for Prometheus, from the templates in `rules/` and the config: one group for each topic."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError

from kappa_monitoring import MONITORING
from kappa_monitoring.config import Config
from kappa_monitoring.errors import MonitoringError

TEMPLATES = MONITORING / "rules"


class Alert(BaseModel, frozen=True, extra="forbid"):
    """An alert. `topic` is the group, and the page of its runbook; `wait` is how long its condition must hold before it fires."""

    topic: str
    name: str = Field(alias="alert")
    expr: str
    wait: str = Field("", alias="for")
    severity: Literal["critical", "warning"]
    summary: str
    description: str
    runbook_url: str

    def build(self) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.expr,
            **({"for": self.wait} if self.wait else {}),
            "labels": {"severity": self.severity},
            "annotations": self.annotations,
        }

    @property
    def annotations(self) -> dict[str, str]:
        """Return the texts of the alert."""
        return {"summary": self.summary, "description": self.description, "runbook_url": self.runbook_url}


@dataclass(frozen=True)
class Record:
    """A series that is computed from others. Its name lists the labels, the metric and the operation."""

    name: str
    expr: str

    def build(self) -> dict[str, Any]:
        """Return the rule as Prometheus reads it."""
        return {"record": self.name, "expr": self.expr}


@dataclass(frozen=True)
class Group:
    """The rules of a topic."""

    topic: str
    records: tuple[Record, ...]
    alerts: tuple[Alert, ...]

    def build(self) -> dict[str, Any]:
        """Return the group as Prometheus reads it."""
        rules = [*(record.build() for record in self.records), *(alert.build() for alert in self.alerts)]
        return {"name": f"kappa-{self.topic}", "rules": rules}


def load_groups(config: Config, folder: Path = TEMPLATES) -> tuple[Group, ...]:
    """Read all templates and fill in the values of the config; raise MonitoringError."""
    return tuple(_load_group(path, config) for path in sorted(folder.glob("*.yaml")))


def _load_group(path: Path, config: Config) -> Group:
    body = yaml.safe_load(path.read_text())
    records = (Record(rule["record"], config.fill(rule["expr"])) for rule in body.get("records", ()))
    alerts = (_build_alert(path.stem, rule, config) for rule in body["alerts"])
    return Group(path.stem, tuple(records), tuple(alerts))


def _build_alert(topic: str, rule: dict[str, str], config: Config) -> Alert:
    name = rule.get("alert", "?")
    runbook = f"{config.get('runbooks')}/{topic}.md#{name.lower()}"
    filled = {field: config.fill(text) for field, text in rule.items()}
    try:
        return Alert.model_validate({**filled, "topic": topic, "runbook_url": runbook})
    except ValidationError as error:
        raise MonitoringError(f"alert {name} in monitoring/rules/{topic}.yaml: {error}") from error


class _Dumper(yaml.SafeDumper):
    """Writes a query of several lines as a block."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _write_text)


def render_group(group: Group) -> str:
    """Return the file of a group."""
    source = f"monitoring/rules/{group.topic}.yaml and monitoring/config.yaml"
    body = {"groups": [group.build()]}
    text: str = yaml.dump(body, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)
    return f"# Generated from {source} by `make generate`; do not edit.\n{text}"
