"""All resources on one screen: what is not well in full, and of the rest as much as fits."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from enum import IntEnum
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from kappa_operator.cli.amounts import NONE, say_age
from kappa_operator.cli.health import Health
from kappa_operator.cli.status_calls import Operator, Overview

_AWAY = 60.0
"""Seconds without a word after which nobody acts; a lease is renewed every second, and clocks differ."""
_SHOWN = 8
"""Resources of a kind that are listed though they are well."""


class Exit(IntEnum):
    """How `kappa status` ends. In all commands 1 is for what went wrong, and 2 for options that make no sense."""

    WELL = 0
    UNWELL = 3
    UNKNOWN = 4


def choose_exit(overview: Overview, now: datetime) -> Exit:
    """Return how the command ends: what is known not to be well counts first."""
    if is_away(overview.operator, now) or not all(each.well for each in overview.resources):
        return Exit.UNWELL
    return Exit.UNKNOWN if overview.unreadable else Exit.WELL


def is_away(operator: Operator, now: datetime) -> bool:
    """Return whether it is known that no operator acts; that it may not be read says nothing."""
    if operator.why is not None:
        return False
    return (
        operator.holder is None
        or operator.renewed is None
        or (now - operator.renewed).total_seconds() > _AWAY
    )


def build_status_view(overview: Overview, now: datetime, *, mixed: bool, every: bool = False) -> Group:
    """Return the screen; `mixed` where there are several namespaces, with `every` nothing is left out."""
    shown, left = _choose(overview.resources, None if every else _SHOWN)
    table = Table(box=None, pad_edge=False)
    for column in (
        "",
        *(("NAMESPACE",) if mixed else ()),
        "KIND",
        "NAME",
        "READY",
        "REASON",
        "SINCE",
        "WHAT TO DO",
    ):
        table.add_column(column, overflow="fold")
    for each in shown:
        place = [each.namespace] if mixed else []
        cells = [*place, each.kind, each.name, each.ready, each.reason, f"{say_age(each.since, now)}"]
        mark = Text("✓", "green") if each.well else Text("✗", "red")
        table.add_row(mark, *map(Text, cells), _say_next(each))
    lines = [
        *(f"… and {count} more {kind}s that are well" for kind, count in left.items()),
        "",
        *_sum_up(overview, now),
    ]
    return Group(*([table] if shown else ["there are no Kappa resources"]), *map(Text, lines))


def _choose(resources: Iterable[Health], most: int | None) -> tuple[list[Health], dict[str, int]]:
    """Return what is listed, and how many of each kind are left out."""
    shown, seen, left = [], Counter[str](), Counter[str]()
    for each in resources:
        seen[each.kind] += each.well
        if each.well and most is not None and seen[each.kind] > most:
            left[each.kind] += 1
        else:
            shown.append(each)
    return shown, dict(left)


def _say_next(health: Health) -> Text:
    if health.well:
        return Text(NONE)
    return Text("\n".join(filter(None, (health.message, f"→ {health.next}" if health.next else ""))))


def _sum_up(overview: Overview, now: datetime) -> Iterator[str]:
    unwell = sum(not each.well for each in overview.resources)
    total = len(overview.resources)
    yield f"{total} resources, {f'{unwell} not well' if unwell else 'all well' if total else 'none'}"
    yield f"operator: {_say_operator(overview.operator, now)}"
    for kind, why in overview.unreadable.items():
        yield f"{kind}s are not known: {why}"


def _say_operator(operator: Operator, now: datetime) -> str:
    if operator.why is not None:
        return f"not known whether one acts: {operator.why}"
    if not is_away(operator, now):
        return f"{operator.holder} acts"
    since = "" if operator.renewed is None else f", the last word is of {say_age(operator.renewed, now)} ago"
    return f"none acts{since}; what is said above may be old"


def build_status_data(overview: Overview, now: datetime) -> dict[str, Any]:
    """Return the same for programs."""
    operator = overview.operator
    return {
        "well": choose_exit(overview, now) is Exit.WELL,
        "operator": {
            "acts": None if operator.why is not None else not is_away(operator, now),
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
