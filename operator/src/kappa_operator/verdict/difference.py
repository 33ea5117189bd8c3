"""What was changed between the revision that runs and the requested one: pure, from the two revisions, as text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kappa_crds.revision import Revision
from kappa_crds.upgrade import SHADOW_MODES, Upgrade, UpgradeMode, VerdictKind

_NAMED = {"sources": "source", "views": "view", "sinks": "sink"}
_BESIDE = {*_NAMED, "sparkConf", "restartNonce", "image"}
_IMAGE = "spark.kubernetes.container.image"
_FOLLOWS = {
    UpgradeMode.LAST_STATE: "the change would be refused, and the active driver would continue",
    UpgradeMode.SAVEPOINT: "the change would be refused, and the active driver would continue",
    UpgradeMode.REPROCESS: "it would start with empty state at the first record of its sources, and write its output again",
    UpgradeMode.AUTO: "it would start with empty state at the first record of its sources, and write its output again",
}


def compare_revisions(old: Revision, new: Revision) -> Iterator[str]:
    """Yield what was changed, one line each; nothing of values that may be long."""
    for field, noun in _NAMED.items():
        yield from _compare_named(noun, getattr(old.spec, field), getattr(new.spec, field))
    was, now = old.spec.to_manifest(), new.spec.to_manifest()
    for field in sorted((was.keys() | now.keys()) - _BESIDE):
        if was.get(field) != now.get(field):
            yield f"spec.{field} is changed{_list_fields(was.get(field), now.get(field))}"
    yield from _compare_maps("topic {!r} is {} in Kafka instead of {}", old.topics, new.topics)
    settings = (
        {key: each.spark_conf[key] for key in each.spark_conf if key != _IMAGE} for each in (old, new)
    )
    yield from _compare_maps("setting {} is {} instead of {}", *settings)
    yield from _compare_surroundings(old, new)
    if old.spec.restart_nonce != new.spec.restart_nonce:
        yield "spec.restartNonce requests a new driver"


def explain_mode(upgrade: Upgrade, mode: UpgradeMode, kind: VerdictKind) -> str:
    """Describe the effect of a verdict in a mode, which may be another one than that of the spec."""
    if mode is UpgradeMode.STATELESS:
        return "spec.upgrade.mode is Stateless: it starts with empty state at the startingOffsets of its sources, for any verdict"
    if kind is VerdictKind.REPROCESS:
        beside = f"beside it, a Reprocessing would compute {upgrade.reprocessing.scope}"
        return f"spec.upgrade.mode is {mode.value}: {beside if mode in SHADOW_MODES else _FOLLOWS[mode]}"
    saved = " once a savepoint is taken" if mode is UpgradeMode.SAVEPOINT else ""
    return f"spec.upgrade.mode is {mode.value}: it would continue from the last batch{saved}"


def _compare_named(noun: str, old: Sequence[Any], new: Sequence[Any]) -> Iterator[str]:
    was, now = {each.name: each for each in old}, {each.name: each for each in new}
    for name in sorted(was.keys() - now.keys()):
        yield f"{noun} {name!r} is gone"
    for name in sorted(now.keys() - was.keys()):
        yield f"{noun} {name!r} is new"
    for name in sorted(was.keys() & now.keys()):
        if was[name] != now[name]:
            yield f"{noun} {name!r} is changed{_list_fields(was[name].to_manifest(), now[name].to_manifest())}"


def _list_fields(old: Any, new: Any) -> str:
    """Return the fields in which two maps differ, in brackets."""
    fields = sorted(_find_fields(old, new))
    return f" ({', '.join(fields)})" if fields else ""


def _find_fields(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that differ; a field that only one of the two has counts as a whole."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        yield from [path] if path else []
        return
    for key in old.keys() | new.keys():
        if old.get(key) != new.get(key):
            yield from _find_fields(old.get(key), new.get(key), f"{path}.{key}" if path else key)


def _compare_maps(text: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        if was != now:
            yield text.format(key, *("not set" if each is None else each for each in (now, was)))


def _compare_surroundings(old: Revision, new: Revision) -> Iterator[str]:
    if old.image != new.image:
        yield f"the image is {new.image} instead of {old.image}"
    was, now = old.modules or {}, new.modules or {}
    for name in sorted(was.keys() | now.keys()):
        if was.get(name) != now.get(name):
            yield f"the Python module {name} is changed"
    if old.kafka != new.kafka or old.registries != new.registries:
        yield "the connection to Kafka or to a schema registry is changed"
    if old.tuning != new.tuning:
        yield "the sizes that the operator chooses are changed"
    if old.checkpoint != new.checkpoint:
        yield "the state is in another checkpoint"
