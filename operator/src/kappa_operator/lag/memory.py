"""What policies remember from one look to the next while the operator lives; what outlives it stands in their status."""

from collections.abc import Mapping

from kappa_operator.keys import Key
from kappa_operator.lag.model import Share
from kappa_operator.lag.standing import Standing

Standings = Mapping[Share, Standing]


class LagMemory:
    """The standings of each policy, by its uid: one that is made anew under the same name remembers nothing."""

    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, Standings]] = {}

    def recall(self, policy: Key, uid: str) -> Standings | None:
        """Return what the policy remembers, None where the operator has not judged it yet."""
        known = self._known.get(policy)
        return known[1] if known is not None and known[0] == uid else None

    def keep(self, policy: Key, uid: str, standings: Standings) -> None:
        """Remember the standings."""
        self._known[policy] = uid, standings

    def forget(self, policy: Key) -> None:
        """Forget a policy that is gone."""
        self._known.pop(policy, None)
