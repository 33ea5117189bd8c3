"""Rules for Prometheus, from the templates in `rules/` and the config: one group for each topic."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from kappa_monitoring import MONITORING
from kappa_monitoring.config import Config
from kappa_monitoring.errors import BadRule

TEMPLATES = MONITORING / "rules"
SEVERITIES = ("critical", "warning")
_FIELDS = {"alert", "expr", "for", "severity", "summary", "description"}
_REQUIRED = _FIELDS - {"for"}


@dataclass(frozen=True)
class Alert:
    """An alert. `topic` is the group, and the page of its runbook; `wait` is how long its condition must hold before it fires."""

    topic: str
    name: str
    expr: str
    wait: str
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

    topic: str
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
    """Read all templates and fill in the values of the config; raise UnknownValue or BadRule."""
    return tuple(_load_group(path, config) for path in sorted(folder.glob("*.yaml")))


def _load_group(path: Path, config: Config) -> Group:
    body = yaml.safe_load(path.read_text())
    records = (
        Record(path.stem, rule["record"], config.fill(rule["expr"])) for rule in body.get("records", ())
    )
    return Group(
        path.stem, tuple(records), tuple(_build_alert(path.stem, rule, config) for rule in body["alerts"])
    )


def _build_alert(topic: str, rule: dict[str, str], config: Config) -> Alert:
    name = rule.get("alert", "?")
    missing, unknown = _REQUIRED - rule.keys(), rule.keys() - _FIELDS
    if missing or unknown:
        wrong = ", ".join(sorted(missing | unknown))
        raise BadRule(f"alert {name} in monitoring/rules/{topic}.yaml: {wrong} missing or not known")
    severity = rule["severity"]
    if severity not in SEVERITIES:
        raise BadRule(
            f"alert {name} in monitoring/rules/{topic}.yaml: severity is one of {', '.join(SEVERITIES)}"
        )
    return Alert(
        topic=topic,
        name=name,
        expr=config.fill(rule["expr"]),
        wait=config.fill(rule.get("for", "")),
        severity="critical" if severity == "critical" else "warning",
        summary=config.fill(rule["summary"]),
        description=config.fill(rule["description"]),
        runbook_url=f"{config.get('runbooks')}/{topic}.md#{name.lower()}",
    )


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
