"""Alerts: promtool shows that each one fires and does not fire, that all are complete, and that their texts are right."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kappa_monitoring.rules import TEMPLATES, Alert, Group, render_group
from lab.prometheus import find_program
from lab.shell import run
from unit.monitoring.cases import CASES, INTERVAL, load_cases
from unit.monitoring.rendered import ALERTS, load

CASES_OF = {alert.name: [case for case in load_cases() if case.alert == alert.name] for alert in ALERTS}
TOPICS = [pytest.param(group, id=group.topic) for group in load()]
EACH = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.name)


@pytest.mark.parametrize("group", TOPICS)
def test_promtool_takes_the_rules_and_each_alert_fires_when_it_must_and_only_then(
    group: Group, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(render_group(group))
    run_promtool("check", "rules", rules)
    tests = [write_test(replace(group, alerts=(alert,)), tmp_path) for alert in group.alerts]
    assert "SUCCESS" in run_promtool("test", "rules", *tests)


def run_promtool(*arguments: str | Path) -> str:
    """Run it on one processor: on more it spends a tenth of its time on coordination."""
    return run([find_program("promtool"), *arguments], env={"GOMAXPROCS": "1"})


def write_test(group: Group, folder: Path) -> Path:
    """Write the cases of the only alert of a group; with all alerts, each minute of each case would evaluate all of them."""
    (alert,) = group.alerts
    rules, tests = folder / f"{alert.name}-rules.yaml", folder / f"{alert.name}-tests.yaml"
    rules.write_text(render_group(group))
    built = [case.build(alert) for case in CASES_OF[alert.name]]
    body = {"rule_files": [str(rules)], "evaluation_interval": INTERVAL, "tests": built}
    tests.write_text(yaml.safe_dump(body, sort_keys=False))
    return tests


@EACH
def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(alert: Alert) -> None:
    fires = [bool(case.fires) for case in CASES_OF[alert.name]]
    assert set(fires) == {True, False}, f"add the cases of {alert.name} to {CASES}/{alert.topic}.yaml"


def test_there_is_no_case_of_an_alert_that_does_not_exist() -> None:
    assert {case.alert for case in load_cases()} <= CASES_OF.keys()


def test_names_of_alerts_are_used_once_and_begin_with_the_platforms_name() -> None:
    names = [alert.name for alert in ALERTS]
    assert sorted(set(names)) == sorted(names)
    assert [name for name in names if not re.fullmatch(r"Kappa[A-Z][A-Za-z]+", name)] == []


@EACH
def test_an_alert_names_the_object_the_problem_and_the_first_step(alert: Alert) -> None:
    assert alert.summary.endswith(".")
    assert len(alert.summary) < 140
    assert re.search(r"\bFirst\b", alert.description), "the description says what to do first"
    if "$labels.pipeline" in alert.description + alert.summary:
        assert "{{ $labels.namespace }}/{{ $labels.pipeline }}" in alert.summary


def find_strangers(template: dict[str, Any]) -> list[str]:
    """Numbers and durations of a template that are not from the config; 0 and 1 say yes and no."""
    kept = ("expr", "for", "description")
    texts = [template[name] for name in kept if name in template]
    bare = [re.sub(r'<<[\w.]+>>|"[^"]*"|\b\w*[A-Za-z_:]\w*\b', " ", text) for text in texts]
    durations = re.findall(r"\[(\d+\w+)", " ".join(texts))
    return [
        number for text in bare for number in re.findall(r"\d+(?:\.\d+)?", text) if number not in "01"
    ] + durations


def test_thresholds_are_in_the_config_and_nowhere_else() -> None:
    found = {
        f"{path.name}: {rule.get('alert') or rule['record']}": find_strangers(rule)
        for path in sorted(TEMPLATES.glob("*.yaml"))
        for rules in yaml.load(path.read_text(), yaml.CSafeLoader).values()
        for rule in rules
    }
    assert {where: numbers for where, numbers in found.items() if numbers} == {}


@pytest.mark.parametrize(
    ("expr", "found"),
    [
        ("a > 5", ["5"]),
        ("rate(a[5m]) > 0", ["5m"]),
        ("a > <<b.c>>", []),
        ('a{b="7"} == 1', []),
        ("a9 > 0.5", ["0.5"]),
    ],
)
def test_a_threshold_that_is_not_in_the_config_is_found(expr: str, found: list[str]) -> None:
    assert find_strangers({"expr": expr}) == found
