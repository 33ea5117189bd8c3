"""An index of stored queries, by which a document finds the queries that may match.

Each query is indexed by its anchors, which are chosen to be rare: a feature of few queries is assumed to be in few documents.
Queries without anchors, only ranges or NOT, are tested against every document.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kappa_pipelines.transforms.search.conditions import Anchors, Condition
from kappa_pipelines.transforms.search.document import Document, Feature, Fields, Number
from kappa_pipelines.transforms.search.language import QueryError, read_query
from kappa_pipelines.transforms.search.versions import Valid

_PREFIX_WEIGHT = 100  # a prefix is found in as many more documents than a word


_Group = tuple[str, str, int]
"""Common to features that are looked up together: kind, field, and the length of prefixes."""


@dataclass(frozen=True, slots=True)
class _Filed:
    condition: Condition
    anchors: Anchors | None


@dataclass
class Index:
    """Has the valid queries; invalid ones match nothing."""

    fields: Fields
    _filed: dict[Valid, _Filed | None] = field(default_factory=dict)
    _under: dict[_Group, dict[str | Number, dict[Valid, Condition]]] = field(default_factory=dict)
    _always: dict[Valid, Condition] = field(default_factory=dict)
    _named: Counter[Feature] = field(default_factory=Counter)

    def hold(self, queries: Iterable[Valid]) -> None:
        """Set the queries; the cost depends on the difference only."""
        wanted = dict.fromkeys(queries)
        gone = [query for query in self._filed if query not in wanted]
        for query in gone:
            self._remove(query)
        if gone:
            self._named += Counter()  # drops counts of 0
        read = [(query, read_query(self.fields, query.text)) for query in wanted if query not in self._filed]
        for _, condition in read:
            if not isinstance(condition, QueryError):
                self._named.update(condition.list_features())
        for query, condition in read:
            self._add(query, condition)

    def find(self, document: Document, time: int) -> list[Valid]:
        """Return the queries valid at a time that a document matches."""
        return [
            query
            for query, condition in self.find_candidates(document).items()
            if query.since <= time < query.until and condition.matches(document)
        ]

    def find_candidates(self, document: Document) -> dict[Valid, Condition]:
        """Return the queries that a document is tested against, at any time."""
        candidates = dict(self._always)
        for group, queries in self._under.items():
            for value in queries.keys() & document.find_values(*group):
                candidates.update(queries[value])
        return candidates

    @property
    def always(self) -> int:
        """Return how many queries every document is tested against."""
        return len(self._always)

    def _add(self, query: Valid, condition: Condition | QueryError) -> None:
        if isinstance(condition, QueryError):
            self._filed[query] = None
            return
        anchors = condition.find_anchors(self._weigh)
        self._filed[query] = _Filed(condition, anchors)
        if anchors is None:
            self._always[query] = condition
        for anchor in anchors or ():
            self._under.setdefault(_find_group(anchor), {}).setdefault(anchor[2], {})[query] = condition

    def _remove(self, query: Valid) -> None:
        filed = self._filed.pop(query)
        if filed is None:
            return
        self._always.pop(query, None)
        self._named.subtract(filed.condition.list_features())
        for anchor in filed.anchors or ():
            queries = self._under[_find_group(anchor)]
            del queries[anchor[2]][query]
            if not queries[anchor[2]]:
                del queries[anchor[2]]

    def _weigh(self, feature: Feature) -> float:
        """Return how many queries name a feature, an estimate of how many documents have it."""
        return self._named[feature] * (_PREFIX_WEIGHT if feature[0] == "prefix" else 1)


def _find_group(anchor: Feature) -> _Group:
    kind, field, value = anchor
    return kind, field, len(str(value)) if kind == "prefix" else 0
