"""What the change from one plan to another means for the state: pure, from what both keep state for."""

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import NamedTuple

from kappa_crds.upgrade import UpgradeVerdict, VerdictKind
from kappa_pipelines.plan.fingerprint import OperatorFingerprint, QueryFingerprint

_ORDER = (VerdictKind.RESUME, VerdictKind.REPARTITION, VerdictKind.REPROCESS)
_SHORT = 120


class Finding(NamedTuple):
    """One thing that was changed, and what it means; `view` is the one that it is in, if it is in one."""

    kind: VerdictKind
    text: str
    view: str | None = None


def judge(findings: Iterable[Finding]) -> UpgradeVerdict:
    """Return the verdict on all findings: the gravest counts, and stands first."""
    found = sorted(dict.fromkeys(findings), key=lambda each: -_ORDER.index(each.kind))
    kind = found[0].kind if found else VerdictKind.RESUME
    return UpgradeVerdict(kind=kind, reasons=tuple(each.text for each in found))


def compare_partitions(had: int | None, wants: int) -> Iterator[Finding]:
    """Yield what a change of the number of state partitions means."""
    if had is not None and had != wants:
        said = f"the state has {had} partitions and is to have {wants}; it has to be divided anew"
        yield Finding(VerdictKind.REPARTITION, said)


def compare_pipelines(
    old: Mapping[str, QueryFingerprint], new: Mapping[str, QueryFingerprint]
) -> Iterator[Finding]:
    """Yield what was changed between the queries of two revisions, by sink, as far as state is concerned."""
    for sink in sorted(old.keys() - new.keys()):
        if not old[sink].left:
            yield Finding(VerdictKind.RESUME, f"sink {sink!r} is gone; its state is left behind")
    for sink in sorted(new.keys() - old.keys()):
        yield Finding(VerdictKind.RESUME, f"sink {sink!r} is new; it begins where its sources say")
    for sink in sorted(old.keys() & new.keys()):
        if old[sink].left:
            yield Finding(VerdictKind.RESUME, f"sink {sink!r} is back; it goes on where it was when it went")
        for found in compare_queries(old[sink], new[sink]):
            yield found._replace(text=f"sink {sink!r}: {found.text}")


def compare_queries(old: QueryFingerprint, new: QueryFingerprint) -> Iterator[Finding]:
    """Yield what was changed between two queries of one sink."""
    yield from _compare_ends(old, new)
    operators = list(_compare_operators(old.operators, new.operators))
    yield from operators
    told = {each.view for each in operators}
    if old.operators and new.operators:
        for view in sorted(old.views.keys() & new.views.keys() - told):
            if old.views[view] != new.views[view]:
                said = f"view {view!r} was changed; what is in state already was computed by the old one"
                yield Finding(VerdictKind.RESUME, said)


def _compare_ends(old: QueryFingerprint, new: QueryFingerprint) -> Iterator[Finding]:
    for name in sorted(new.sources.keys() - old.sources.keys()):
        yield Finding(VerdictKind.RESUME, f"source {name!r} is new; it is read from where it says")
    for name in sorted(old.sources.keys() - new.sources.keys()):
        yield Finding(VerdictKind.RESUME, f"source {name!r} is not read any more; its offsets are forgotten")
    for name in sorted(old.sources.keys() & new.sources.keys()):
        if old.sources[name] != new.sources[name]:
            said = f"source {name!r} reads {new.sources[name]} instead of {old.sources[name]}; offsets of one mean nothing in the other"
            yield Finding(VerdictKind.REPROCESS, said)
    if old.topic != new.topic:
        said = (
            f"it writes to topic {new.topic} instead of {old.topic}; rows up to now are in the old one alone"
        )
        yield Finding(VerdictKind.RESUME, said)
    if old.mode != new.mode:
        said = f"its mode is {new.mode.value} instead of {old.mode.value}"
        kept = {old.mode.value, new.mode.value} <= {"append", "update"} or not old.operators
        yield Finding(VerdictKind.RESUME if kept else VerdictKind.REPROCESS, said)


def _compare_operators(
    old: tuple[OperatorFingerprint, ...], new: tuple[OperatorFingerprint, ...]
) -> Iterator[Finding]:
    """Spark knows operators by their place, so what was put before another one moves that, too."""
    for before, after in zip_longest(old, new):
        if before is None:
            yield _reprocess(after, f"a new {after.operator}, for which there is no state")
        elif after is None:
            yield _reprocess(
                before, f"the {before.operator} is gone, and the state of those after it has another place"
            )
        elif before.operator != after.operator:
            yield _reprocess(after, f"{_a(after.operator)} where there was {_a(before.operator)}")
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
                f"its definition was changed{_show_change(was, now)}, and its state was kept by the old one",
            )
        else:
            yield _reprocess(
                new, f"the {part} of the {new.operator} {_is(part)} {_list(now)} instead of {_list(was)}"
            )


def _compare_aggregates(
    was: tuple[str, ...], now: tuple[str, ...], new: OperatorFingerprint
) -> Iterator[Finding]:
    added, gone = [each for each in now if each not in was], [each for each in was if each not in now]
    if added:
        yield _reprocess(new, f"new aggregates, for which there is no state: {_list(added)}")
    if gone:
        yield _reprocess(new, f"aggregates that are kept in state and gone now: {_list(gone)}")
    if not added and not gone:
        yield _reprocess(new, "its aggregates have another order, and their state knows them by their place")


def _show_change(was: tuple[str, ...], now: tuple[str, ...]) -> str:
    """Return which fields of a definition were changed, as far as both are definitions."""
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
    said = ", ".join(texts) or "none"
    return said if len(said) <= _SHORT else f"{said[:_SHORT]} …"


def _reprocess(shape: OperatorFingerprint, text: str) -> Finding:
    said = f"view {shape.view!r}: {text}" if shape.view else text
    return Finding(VerdictKind.REPROCESS, said, shape.view)
