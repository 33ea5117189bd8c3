"""What the engine knows about a kind: its entry in the table of kinds. Nothing else in the engine names a kind.

`kappa_operator.kinds` holds the table of the platform. Tests build tables of their own.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kappa_crds.reasons import Reason
from kappa_crds.resource import Kind, Resource
from kappa_operator.engine.keys import Key
from kappa_operator.engine.limits import Weight
from kappa_operator.engine.plan import Failure, Plan

if TYPE_CHECKING:
    from kappa_operator.engine.cache import ResourceCache
    from kappa_operator.engine.context import OperatorContext

Body = dict[str, Any]


class Observed(Protocol):
    """What every observation holds: the resource as it was when the decision was made."""

    @property
    def resource(self) -> Resource[Any, Any]:
        """Return the resource."""


ObservedT = TypeVar("ObservedT", bound=Observed)
Step = Callable[[ObservedT, datetime], Plan | None]
"""A part of a decision: it returns None where the next step decides."""


@dataclass(frozen=True, slots=True)
class Reference:
    """How specs name a resource of a kind, and the reasons where the named resource cannot be used."""

    fields: tuple[str, ...]
    """Fields that hold its name, wherever they are in a spec. A field of that name with another meaning only costs a look-up."""
    missing: Reason
    not_ready: Reason
    ambiguous: Reason = Reason.INVALID_SPEC
    """Where the name is left out and the namespace has several."""


@dataclass(frozen=True, slots=True)
class OwnedPods:
    """Pods that belong to a resource: its name is the value of the label."""

    label: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that they have besides."""


@dataclass(frozen=True, slots=True)
class KindEntry(Generic[ObservedT]):
    """One kind: how its resources are observed and decided, and how they relate to others."""

    kind: Kind
    observe: Callable[["OperatorContext", Key, tuple[Failure, ...]], Awaitable[ObservedT | None]]
    """Reads the world into a frozen value and writes nothing; None where there is nothing to decide."""
    steps: tuple[Step[ObservedT], ...]
    """The parts of a decision, in order: the first plan is taken. Pure."""
    finalizer: str | None = None
    reference: Reference | None = None
    """None for a kind that no spec names."""
    defaults: tuple[str, ...] = ()
    """Reference fields of its spec that, left out, mean the only resource of the named kind in the namespace."""
    status_names: tuple[str, ...] = ()
    """Fields of its status that name resources, as its spec does."""
    find_dependents: Callable[["ResourceCache", Key], Iterable[Key]] = lambda _cache, _key: ()
    """Resources that may wait for one of this kind without naming it."""
    find_followers: Callable[["ResourceCache", Key], Iterable[Key]] = lambda _cache, _key: ()
    """Resources that have to act at once on a change of one of this kind, also where they are ready."""
    pods: OwnedPods | None = None
    on_deleted: Callable[["OperatorContext", Key], None] = lambda _context, _key: None
    """Lets go what the process holds for a resource that is gone."""
    is_long: Callable[[ObservedT], bool] = lambda _observed: False
    """Whether a decision takes so long that it is made in a thread, so that health and the election get their turn."""
    claim: Callable[[Body], str] | None = None
    """The name outside the cluster that a resource claims, for `ResourceCache.find_claims`."""
    excerpt: Callable[[Body], Body] | None = None
    """A part of each resource that the cache keeps parsed, for `ResourceCache.list_excerpts`."""
    limit: str | None = None
    """The limit of its resources in a namespace, by the name of the chart's value."""
    weights: tuple[Weight, ...] = ()
    """What its specs request of something that is limited."""
    keeps_parsed: bool = False
    """Whether the cache keeps resources parsed, some 20 KB each: a kind that is read often, and is few beside Topics."""

    @property
    def name(self) -> str:
        """Return the kind's name."""
        return self.kind.name

    def decide(self, observed: ObservedT, now: datetime) -> Plan:
        """Return the plan of the first step that has one."""
        return take_first(self.steps, observed, now)


def take_first(steps: Iterable[Step[ObservedT]], observed: ObservedT, now: datetime) -> Plan:
    """Return the plan of the first step that has one; without one there is nothing to do."""
    found = (step(observed, now) for step in steps)
    return next((plan for plan in found if plan is not None), Plan())


KindTable = Mapping[str, KindEntry[Any]]
"""The entries by the names of their kinds."""


def build_table(entries: Iterable[KindEntry[Any]], kinds: Iterable[Kind]) -> KindTable:
    """Return the table of exactly these kinds; raise ValueError for a kind without an entry, or an entry that is no such kind."""
    table: dict[str, KindEntry[Any]] = {}
    for entry in entries:
        if entry.name in table:
            raise ValueError(f"kind {entry.name} has two entries in the table of kinds")
        table[entry.name] = entry
    names = {kind.name for kind in kinds}
    if names != table.keys():
        missing, unknown = sorted(names - table.keys()), sorted(table.keys() - names)
        raise ValueError(f"the table of kinds lacks {missing} and has unknown {unknown}")
    return table


def map_references(table: KindTable) -> dict[str, str]:
    """Return the kind that each reference field names."""
    return {
        name: entry.name for entry in table.values() if entry.reference for name in entry.reference.fields
    }
