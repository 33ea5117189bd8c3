"""The generated rules and dashboards, and the copies that the chart ships."""

from pathlib import Path

from kappa_monitoring import MONITORING, REPOSITORY
from kappa_monitoring.config import load_config
from kappa_monitoring.connect import build_exporter_rules
from kappa_monitoring.contract import check_alert, find_all_series
from kappa_monitoring.dashboards import BOARDS, check_board, render_board
from kappa_monitoring.rules import load_groups, render_group

CHART = REPOSITORY / "charts" / "kappa" / "files" / "monitoring"
EXPORTER = MONITORING / "connect-jmx.yaml"
_RULES = (MONITORING / "generated", CHART / "rules")
_BOARDS = (MONITORING / "dashboards", CHART / "dashboards")
FOLDERS = (*_RULES, *_BOARDS)
"""Folders in which every file is generated."""


def render_files() -> dict[Path, str]:
    """Return path → text of all that is generated; raise MonitoringError."""
    config = load_config()
    groups = load_groups(config)
    series = find_all_series(groups)
    for alert in (alert for group in groups for alert in group.alerts):
        check_alert(alert, series)
    rules = {f"{group.topic}.yaml": render_group(group) for group in groups}
    for board in BOARDS:
        check_board(board, config, series)
    boards = {f"{board.uid}.json": render_board(board, config) for board in BOARDS}
    config.check_used()
    files = {folder / name: text for folder in _RULES for name, text in rules.items()}
    files |= {folder / name: text for folder in _BOARDS for name, text in boards.items()}
    return {**files, EXPORTER: build_exporter_rules()}
