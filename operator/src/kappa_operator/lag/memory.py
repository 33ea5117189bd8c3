"""What policies keep in memory from one sample to the next; their status keeps what must outlive the operator."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kappa_operator.engine.keys import Key
from kappa_operator.lag.history import LagHistory
from kappa_operator.lag.load import Load
from kappa_operator.lag.model import GroupPartition


@dataclass(frozen=True, slots=True)
class Remembered:
    """The lag histories of a policy, and the measured loads of its pipelines by name."""

    histories: Mapping[GroupPartition, LagHistory] = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)


class LagMemory:
    """The memory of each policy, by its uid: one that is recreated under the same name has none."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, Remembered]] = {}

    def recall(self, policy: Key, uid: str) -> Remembered | None:
        """Return the memory of the policy, None where the operator has not evaluated it yet."""
        known = self._known.get(policy)
        return known[1] if known is not None and known[0] == uid else None

    def keep(self, policy: Key, uid: str, remembered: Remembered) -> None:
        """Keep it."""
        self._known[policy] = uid, remembered

    def forget(self, policy: Key) -> None:
        """Forget a deleted policy."""
        self._known.pop(policy, None)
