"""The cut of consumer groups: each has committed the ends of the old outputs, and has no members; then its positions in the new ones are committed.

Kafka refuses to commit for a group with members, and a group without members falls behind while its topic is written. So all drivers hold at the
cut for a while, in which the consumers read to the end, commit, and are stopped. Without that the attempt is given up (ADR 72).
"""

from kappa_crds.permissions import name_version
from kappa_crds.progress import TopicOffsets
from kappa_crds.reprocessing import Cut, read_positions
from kappa_operator.engine.actions import CommitOffsets
from kappa_operator.kafka.model import GroupView
from kappa_operator.reprocessing.cut import read_all
from kappa_operator.reprocessing.model import ReprocessingObserved

GROUP_PATIENCE = 60.0
"""Seconds for which all drivers hold for consumer groups."""


def find_obstacles(groups: tuple[GroupView, ...], cuts: tuple[Cut, ...]) -> dict[str, str]:
    """Return by group why it cannot continue in the new outputs yet."""
    old = read_all(cut.old for cut in cuts)
    return {each.name: why for each in groups if (why := _find_obstacle(each, old))}


def _find_obstacle(group: GroupView, old: TopicOffsets) -> str:
    read = {topic: parts for topic, parts in old.items() if topic in group.committed}
    if not read:
        return f"has committed no offsets of {', '.join(sorted(old))}"
    parts = [
        (offset, group.committed[topic].get(part, 0))
        for topic, ends in read.items()
        for part, offset in ends.items()
    ]
    lag = sum(max(0, end - at) for end, at in parts)
    if lag:
        return f"has a lag of {lag} offsets"
    if any(at > end for end, at in parts):
        return "has committed offsets beyond the end"
    return f"has {group.members} members, which have to be stopped" if group.members else ""


def commit_positions(observed: ReprocessingObserved, cuts: tuple[Cut, ...]) -> tuple[CommitOffsets, ...]:
    """Return what commits the positions in the new outputs, for groups that do not have them."""
    found = []
    for group in observed.groups:
        wanted = _find_positions(observed, group, cuts)
        known = {topic: dict(group.committed.get(topic, {})) for topic in wanted}
        if observed.cluster is not None and known != wanted:
            found.append(CommitOffsets(observed.cluster, group.name, wanted))
    return tuple(found)


def _find_positions(observed: ReprocessingObserved, group: GroupView, cuts: tuple[Cut, ...]) -> TopicOffsets:
    """Return where a group continues, in the new versions of the topics that it read."""
    found: TopicOffsets = {}
    for party, cut in zip(observed.parties, cuts, strict=True):
        if party.active is None or party.side is None:
            continue
        before, after = (name_version(each.run.outputs) for each in (party.active, party.side))
        new = read_positions(cut.new)
        names = [
            topic.removesuffix(before) + after
            for topic in read_positions(cut.old)
            if topic in group.committed
        ]
        found |= {name: new[name] for name in names if name in new}
    return found
