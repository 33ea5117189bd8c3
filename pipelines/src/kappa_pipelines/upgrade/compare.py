"""Compares the state fingerprints of two plans: the effect of a change on the state. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_pipelines.plan.fingerprint import OperatorFingerprint, QueryFingerprint

_ORDER = (VerdictKind.RESUME, VerdictKind.REPARTITION, VerdictKind.REPROCESS)
_SHORT = 120


class Finding(NamedTuple):
    """One change and its effect on the state; `view` is its view, if it is in one."""

    kind: VerdictKind
    text: str
    view: str | None = None


def judge(findings: Iterable[Finding]) -> UpgradeVerdict:
    """Return the verdict on all findings: that of the most severe one, which is the first reason."""
    found = sorted(dict.fromkeys(findings), key=lambda each: -_ORDER.index(each.kind))
    kind = found[0].kind if found else VerdictKind.RESUME
    return UpgradeVerdict(kind=kind, reasons=tuple(each.text for each in found))


def compare_partitions(present: int | None, wanted: int) -> Iterator[Finding]:
    """Yield the finding on a change of the number of state partitions."""
    if present is not None and present != wanted:
        message = f"the state has {present} partitions instead of {wanted}; it will be repartitioned"
        yield Finding(VerdictKind.REPARTITION, message)


def compare_pipelines(
    old: Mapping[str, QueryFingerprint], new: Mapping[str, QueryFingerprint]
) -> Iterator[Finding]:
    """Yield the changes between the queries of two revisions that affect state, by sink."""
    for sink in sorted(old.keys() - new.keys()):
        if not old[sink].left:
            yield Finding(VerdictKind.RESUME, f"sink {sink!r} was removed; its state stays unused")
    for sink in sorted(new.keys() - old.keys()):
        yield Finding(
            VerdictKind.RESUME, f"sink {sink!r} is new; it starts at the starting offsets of its sources"
        )
    for sink in sorted(old.keys() & new.keys()):
        if old[sink].left:
            yield Finding(
                VerdictKind.RESUME, f"sink {sink!r} was added again; it continues at its last committed batch"
            )
        for found in compare_queries(old[sink], new[sink]):
            yield found._replace(text=f"sink {sink!r}: {found.text}")


def compare_queries(old: QueryFingerprint, new: QueryFingerprint) -> Iterator[Finding]:
    """Yield the changes between two queries of one sink."""
    yield from _compare_ends(old, new)
    operators = list(_compare_operators(old.operators, new.operators))
    yield from operators
    reported = {each.view for each in operators}
    if old.operators and new.operators:
        for view in sorted(old.views.keys() & new.views.keys() - reported):
            if old.views[view] != new.views[view]:
                message = f"view {view!r} has changed; existing state was computed by the previous one"
                yield Finding(VerdictKind.RESUME, message)


def _compare_ends(old: QueryFingerprint, new: QueryFingerprint) -> Iterator[Finding]:
    for name in sorted(new.sources.keys() - old.sources.keys()):
        yield Finding(VerdictKind.RESUME, f"source {name!r} is new; it is read from its starting offsets")
    for name in sorted(old.sources.keys() - new.sources.keys()):
        yield Finding(VerdictKind.RESUME, f"source {name!r} is no longer read; its offsets are dropped")
    for name in sorted(old.sources.keys() & new.sources.keys()):
        if old.sources[name] != new.sources[name]:
            message = f"source {name!r} reads {new.sources[name]} instead of {old.sources[name]}; their offsets are not comparable"
            yield Finding(VerdictKind.REPROCESS, message)
    if old.topic != new.topic:
        message = (
            f"it writes to topic {new.topic} instead of {old.topic}; earlier rows are in {old.topic} only"
        )
        yield Finding(VerdictKind.RESUME, message)
    if old.mode != new.mode:
        message = f"its mode is {new.mode.value} instead of {old.mode.value}"
        fits = {old.mode.value, new.mode.value} <= {"append", "update"} or not old.operators
        yield Finding(VerdictKind.RESUME if fits else VerdictKind.REPROCESS, message)


def _compare_operators(
    old: tuple[OperatorFingerprint, ...], new: tuple[OperatorFingerprint, ...]
) -> Iterator[Finding]:
    """Spark identifies operators by their position, so an inserted one moves those after it."""
    for before, after in zip_longest(old, new):
        if before is None:
            yield _reprocess(after, f"a new {after.operator} without state")
        elif after is None:
            yield _reprocess(before, f"the {before.operator} was removed, which moves the state after it")
        elif before.operator != after.operator:
            yield _reprocess(after, f"{_a(after.operator)} instead of {_a(before.operator)}")
        else:
            yield from _compare_parts(before, after)


def _compare_parts(old: OperatorFingerprint, new: OperatorFingerprint) -> Iterator[Finding]:
    for part in sorted(old.parts.keys() | new.parts.keys()):
        was, now = old.parts.get(part, ()), new.parts.get(part, ())
        if was == now:
            continue
        if part == "aggregates":
            yield from _compare_aggregates(was, now, new)
        elif part == "definition":
            yield _reprocess(
                new,
                f"its definition has changed{_show_change(was, now)}, and its state belongs to the previous one",
            )
        else:
            yield _reprocess(
                new, f"the {part} of the {new.operator} {_is(part)} {_list(now)} instead of {_list(was)}"
            )


def _compare_aggregates(
    was: tuple[str, ...], now: tuple[str, ...], new: OperatorFingerprint
) -> Iterator[Finding]:
    added, removed = [each for each in now if each not in was], [each for each in was if each not in now]
    if added:
        yield _reprocess(new, f"new aggregates without state: {_list(added)}")
    if removed:
        yield _reprocess(new, f"removed aggregates that are in the state: {_list(removed)}")
    if not added and not removed:
        yield _reprocess(
            new, "its aggregates have another order, and their state identifies them by position"
        )


def _show_change(was: tuple[str, ...], now: tuple[str, ...]) -> str:
    """Return the changed fields of a definition, if both are definitions."""
    try:
        old, new = json.loads(was[0]), json.loads(now[0])
    except (IndexError, ValueError):
        return ""
    fields = sorted(_find_changes(old, new, ""))
    return f" ({', '.join(fields[:5])})" if fields else ""


def _find_changes(old: object, new: object, path: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() | new.keys():
            yield from _find_changes(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield path


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _is(part: str) -> str:
    return "are" if part.startswith("columns") or part.endswith("s") else "is"


def _list(texts: Iterable[str]) -> str:
    text = ", ".join(texts) or "none"
    return text if len(text) <= _SHORT else f"{text[:_SHORT]} …"


def _reprocess(shape: OperatorFingerprint, text: str) -> Finding:
    located = f"view {shape.view!r}: {text}" if shape.view else text
    return Finding(VerdictKind.REPROCESS, located, shape.view)
