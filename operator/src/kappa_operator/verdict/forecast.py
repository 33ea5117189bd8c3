"""The probable effects of a change on the state, from two specs: pure, without Spark, the state or the log.

It finds less than a dry run, which compares the plans of Spark (ADR 14), and different text may have the same meaning. So it warns and
decides nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from kappa_crds.pipeline import PipelineSpec
from kappa_crds.source import Source
from kappa_crds.upgrade import VerdictKind
from kappa_crds.view import View
from kappa_operator.verdict.view_text import LONGEST, Statement, find_reads, read_statement

_STATELESS = ("sql", "python")
_SHORT = 100
_MOST_REASONS = 4


@dataclass(frozen=True, slots=True)
class Forecast:
    """The expected verdict, and why. `unread` are views that cannot be judged here."""

    kind: VerdictKind
    reasons: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def forecast(old: PipelineSpec, new: PipelineSpec, partitions: int | None) -> Forecast | None:
    """Return what the change from one spec to another is likely to mean; None where there is too much SQL to be read here.

    `partitions` is the number of state partitions that there are.
    """
    if any(sum(len(view.sql or "") for view in spec.views) > LONGEST for spec in (old, new)):
        return None
    reasons = tuple(dict.fromkeys(_find_misfits(old, new)))
    unread = tuple(dict.fromkeys(_find_unread(old, new)))
    if reasons:
        return Forecast(VerdictKind.REPROCESS, reasons, unread)
    wanted = new.state_partitions
    if wanted is not None and partitions is not None and wanted != partitions:
        message = f"spec.statePartitions is {wanted} and the state has {partitions} partitions: all state is repartitioned"
        return Forecast(VerdictKind.REPARTITION, (message,), unread)
    return Forecast(VerdictKind.RESUME, (), unread)


def explain_forecast(found: Forecast | None) -> Iterator[str]:
    """Yield what is expected, and what is unknown; nothing where the state seems to fit."""
    if found is None:
        yield "the effects on the state are unknown before the dry run: there is too much SQL to parse here"
        return
    for view in found.unread:
        yield f"the effect of the change of view {view!r} on the state is not visible in the manifest"
    if found.kind is VerdictKind.REPROCESS:
        yield from (
            f"the state probably cannot be continued: {reason}"
            for reason in _cut(found.reasons, _MOST_REASONS)
        )
    else:
        yield from found.reasons


def _cut(lines: tuple[str, ...], most: int) -> Iterable[str]:
    return lines if len(lines) <= most else (*lines[: most - 1], f"and {len(lines) - most + 1} more reasons")


def _find_misfits(old: PipelineSpec, new: PipelineSpec) -> Iterator[str]:
    """Yield why the state of common sinks cannot continue."""
    was, now = {each.name: each.from_ for each in old.sinks}, {each.name: each.from_ for each in new.sinks}
    for sink in sorted(was.keys() & now.keys()):
        before, after = _reach(old, was[sink]), _reach(new, now[sink])
        for name in sorted(before.keys() | after.keys()):
            yield from _compare_views(name, before.get(name), after.get(name))
    sources = {each.name: each for each in old.sources}
    for source in new.sources:
        if source.name in sources:
            yield from _compare_sources(sources[source.name], source)


def _find_unread(old: PipelineSpec, new: PipelineSpec) -> Iterator[str]:
    before = {view.name: view for view in old.views}
    for view in new.views:
        changed = before.get(view.name) != view
        if changed and (view.python is not None or (view.sql is not None and read_statement(view) is None)):
            yield view.name
    if old.python_from != new.python_from:
        yield from (view.name for view in new.views if view.python is not None)


def _reach(spec: PipelineSpec, start: str) -> Mapping[str, View]:
    """Return the views that a sink's rows come through."""
    views, found, left = {view.name.lower(): view for view in spec.views}, {}, [start]
    while left:
        view = views.get(left.pop().lower())
        if view is not None and view.name not in found:
            found[view.name] = view
            left += find_reads(view)
    return found


def _compare_sources(old: Source, new: Source) -> Iterator[str]:
    if old.reads != new.reads:
        yield (
            f"source {new.name!r} reads {new.reads} instead of {old.reads}; offsets of one mean nothing in the other"
        )


def _compare_views(name: str, old: View | None, new: View | None) -> Iterator[str]:
    if old is not None and new is not None:
        yield from _compare_definitions(old, new)
    elif new is not None and _keeps_state(new):
        yield f"view {name!r} is new to the sink and has no state yet"
    elif old is not None and _keeps_state(old):
        yield f"view {name!r} keeps state and is gone"


def _compare_definitions(old: View, new: View) -> Iterator[str]:
    if old.kind != new.kind:
        if _keeps_state(old) or _keeps_state(new):
            yield f"view {new.name!r} is {new.kind} instead of {old.kind}, and state is kept"
    elif new.kind not in _STATELESS:
        if old.operator != new.operator:
            fields = ", ".join(_name_changes(old, new))
            yield f"view {new.name!r}: its definition was changed ({fields}), and its state was kept by the old one"
    else:
        before, after = read_statement(old), read_statement(new)
        if before is not None and after is not None:
            yield from (f"view {new.name!r}: {text}" for text in _compare_statements(before, after))


def _name_changes(old: View, new: View) -> list[str]:
    was, now = old.to_manifest()[old.kind], new.to_manifest()[new.kind]
    return sorted(f"{new.kind}.{key}" for key in was.keys() | now.keys() if was.get(key) != now.get(key))


def _keeps_state(view: View) -> bool:
    statement = read_statement(view)
    return view.kind not in _STATELESS or (statement is not None and statement.stateful)


def _compare_statements(old: Statement, new: Statement) -> Iterator[str]:
    if old.aggregated != new.aggregated:
        yield (
            "a new aggregation, for which there is no state" if new.aggregated else "its aggregation is gone"
        )
    elif old.groups != new.groups:
        yield f"the keys of its aggregation are {_list(new.groups)} instead of {_list(old.groups)}"
    else:
        yield from _compare_aggregates(old.aggregates, new.aggregates)
    for was, now in zip_longest(old.joins, new.joins, fillvalue=""):
        if was != now:
            yield f"a join is {_list([now] if now else [])} instead of {_list([was] if was else [])}"
    if old.distinct != new.distinct:
        yield "its rows are made distinct otherwise"


def _compare_aggregates(was: tuple[str, ...], now: tuple[str, ...]) -> Iterator[str]:
    added, gone = [each for each in now if each not in was], [each for each in was if each not in now]
    if added:
        yield f"new aggregates, for which there is no state: {_list(added)}"
    if gone:
        yield f"aggregates that are kept in state and gone now: {_list(gone)}"
    if was != now and not added and not gone:
        yield "its aggregates have another order, and their state knows them by their place"


def _list(texts: tuple[str, ...] | list[str]) -> str:
    text = ", ".join(texts) or "none"
    return text if len(text) <= _SHORT else f"{text[:_SHORT]} …"
