"""What policies remember from one look to the next while the operator lives; what outlives it stands in their status."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kappa_operator.engine.keys import Key
from kappa_operator.lag.history import Standing
from kappa_operator.lag.load import Load
from kappa_operator.lag.model import Share


@dataclass(frozen=True, slots=True)
class Remembered:
    """Where the shares of a policy stand, and what was measured of its pipelines, by their names."""

    standings: Mapping[Share, Standing] = field(default_factory=dict)
    loads: Mapping[str, Load] = field(default_factory=dict)


class LagMemory:
    """What each policy remembers, by its uid: one that is made anew under the same name remembers nothing."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, Remembered]] = {}

    def recall(self, policy: Key, uid: str) -> Remembered | None:
        """Return what the policy remembers, None where the operator has not judged it yet."""
        known = self._known.get(policy)
        return known[1] if known is not None and known[0] == uid else None

    def keep(self, policy: Key, uid: str, remembered: Remembered) -> None:
        """Remember it."""
        self._known[policy] = uid, remembered

    def forget(self, policy: Key) -> None:
        """Forget a policy that is gone."""
        self._known.pop(policy, None)
