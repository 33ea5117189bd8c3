"""Folds the versions of a row to the one that a snapshot has.

The rules are those of tables in pipelines: a change is stale if the row has one from a later position; a row of a full snapshot replaces
what came before it. A tombstone without a deletion has no position, so it is applied to rows of its own partition only: readers may see
the partitions in any order.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from kappa_operator.cdc.reconcile.canonical import UNAVAILABLE, hash_fields
from kappa_operator.cdc.reconcile.events import Change, Version
from kappa_operator.cdc.reconcile.snapshot import Snapshot


@dataclass(slots=True)
class State:
    """A row of the topic as of a snapshot: `current`, and `later` versions, which the snapshot does not have.

    `last` has the last version of each partition. Compaction may have removed `current` where there are later versions.
    """

    current: Version | None = None
    later: list[Version] = field(default_factory=list)
    last: dict[int, Version] = field(default_factory=dict)

    @property
    def row(self) -> Version | None:
        """Return the version that is a row, None where there is none."""
        return None if self.current is None or self.current.is_deletion else self.current

    @property
    def is_duplicate(self) -> bool:
        """Return whether more than one partition ends with a row of this key."""
        return len(self.last) > 1 and sum(not each.is_deletion for each in self.last.values()) > 1


def fold(versions: Iterable[Version], snapshot: Snapshot) -> State:
    """Return the state that the snapshot has, from versions in the order of their offsets within each partition."""
    state = State()
    for version in versions:
        add(state, version, snapshot)
    return state


def add(state: State, version: Version, snapshot: Snapshot) -> None:
    """Apply the next version to a state."""
    before = state.last.get(version.partition)
    state.last[version.partition] = version
    if version.change is Change.TOMBSTONE:
        if before is not None and before.change is Change.DELETE:
            return
        if state.current is None or state.current.partition == version.partition:
            state.current = version
        return
    _apply(state, version, snapshot)


def _apply(state: State, version: Version, snapshot: Snapshot) -> None:
    if not snapshot.has(version.position, version.transaction):
        state.later.append(version)
        return
    if version.change is Change.SNAPSHOT_ROW:
        state.later = [each for each in state.later if each.partition != version.partition]
    elif _is_stale(version, state.current):
        return
    state.current = _complete(version, state.current)


def advance(state: State, snapshot: Snapshot) -> bool:
    """Apply later versions, all of which were read before this snapshot was taken; return whether the log is not that of the database.

    A position that the log has not reached is of a database that was restored: its versions count, as readers of the topic have them.
    """
    later, state.later = state.later, []
    is_foreign = False
    for version in later:
        is_beyond = version.position is not None and version.position >= snapshot.lsn
        _apply(state, version._replace(position=None) if is_beyond else version, snapshot)
        is_foreign = is_foreign or is_beyond
    return is_foreign


def _is_stale(version: Version, current: Version | None) -> bool:
    if current is None or current.position is None or version.position is None:
        return False
    return version.position < current.position


def _complete(version: Version, current: Version | None) -> Version:
    """Return a version with the values of the one before it in place of those that an update has left as they were."""
    if version.is_complete or version.fields is None or current is None or current.fields is None:
        return version
    pairs = zip(version.fields, current.fields, strict=True)
    fields = tuple(old if new == UNAVAILABLE else new for new, old in pairs)
    return version._replace(fields=fields, checksum=hash_fields(fields))
