"""All resources on one screen: each unhealthy one, and of the healthy ones as many as fit."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.text import Text

from kappa_operator.cli.errors import Exit
from kappa_operator.cli.figures import NONE, render_age
from kappa_operator.cli.health import Health
from kappa_operator.cli.output import start_table
from kappa_operator.cli.status_read import Operator, Overview

_AWAY = 60.0
"""Age in seconds of a lease without a leader; the leader renews it each second, and clocks differ."""
_COLUMNS = ("KIND", "NAME", "READY", "REASON", "SINCE", "WHAT TO DO")
_SHOWN = 8
"""At most so many healthy resources of each kind are listed."""


def choose_exit(overview: Overview, now: datetime) -> Exit:
    """Return the exit code: a resource that is known to be unhealthy counts first."""
    if is_away(overview.operator, now) or not all(each.healthy for each in overview.resources):
        return Exit.UNHEALTHY
    return Exit.UNKNOWN if overview.unreadable else Exit.OK


def is_away(operator: Operator, now: datetime) -> bool:
    """Return whether there is known to be no leader; a lease that cannot be read does not count."""
    if operator.why is not None:
        return False
    if operator.holder is None or operator.renewed is None:
        return True
    return (now - operator.renewed).total_seconds() > _AWAY


def build_status_view(overview: Overview, now: datetime, *, mixed: bool, every: bool = False) -> Group:
    """Return the screen; `mixed` shows namespaces, `every` lists all resources."""
    shown, left = _choose(overview.resources, None if every else _SHOWN)
    table = start_table(("", *(("NAMESPACE",) if mixed else ()), *_COLUMNS))
    for each in shown:
        place = [each.namespace] if mixed else []
        cells = [*place, each.kind, each.name, each.ready, each.reason, f"{render_age(each.since, now)}"]
        mark = Text("✓", "green") if each.healthy else Text("✗", "red")
        table.add_row(mark, *map(Text, cells), _show_next(each))
    lines = [
        *(f"… and {count} more healthy {kind}s" for kind, count in left.items()),
        "",
        *_sum_up(overview, now),
    ]
    return Group(*([table] if shown else ["no Kappa resources found"]), *map(Text, lines))


def _choose(resources: Iterable[Health], most: int | None) -> tuple[list[Health], dict[str, int]]:
    """Return what to list, and how many of each kind are left out."""
    shown, seen, left = [], Counter[str](), Counter[str]()
    for each in resources:
        seen[each.kind] += each.healthy
        if each.healthy and most is not None and seen[each.kind] > most:
            left[each.kind] += 1
        else:
            shown.append(each)
    return shown, dict(left)


def _show_next(health: Health) -> Text:
    if health.healthy:
        return Text(NONE)
    return Text("\n".join(filter(None, (health.message, f"→ {health.next}" if health.next else ""))))


def _sum_up(overview: Overview, now: datetime) -> Iterator[str]:
    unhealthy = sum(not each.healthy for each in overview.resources)
    total = len(overview.resources)
    yield f"{total} resources, {unhealthy} unhealthy"
    yield f"operator: {_show_operator(overview.operator, now)}"
    for kind, why in overview.unreadable.items():
        yield f"{kind}s are unknown: {why}"


def _show_operator(operator: Operator, now: datetime) -> str:
    if operator.why is not None:
        return f"unknown: {operator.why}"
    if not is_away(operator, now):
        return f"{operator.holder} is the leader"
    since = "" if operator.renewed is None else f" since {render_age(operator.renewed, now)}"
    return f"no active leader{since}; the status above may be stale"


def build_status_data(overview: Overview, now: datetime) -> dict[str, Any]:
    """Return the data for programs."""
    operator = overview.operator
    return {
        "healthy": choose_exit(overview, now) is Exit.OK,
        "operator": {
            "active": None if operator.why is not None else not is_away(operator, now),
            "replica": operator.holder,
            "renewed": operator.renewed.isoformat() if operator.renewed else None,
            "why": operator.why,
        },
        "resources": [
            {**asdict(each), "since": each.since.isoformat() if each.since else None}
            for each in overview.resources
        ],
        "unreadable": dict(overview.unreadable),
    }
