"""The gate before the queries of a driver: it moves them from cut to cut, after crashes and holds too."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from kappa_crds.permissions import Subject, list_permissions
from kappa_crds.pipeline import PipelineSpec
from kappa_pipelines.checkpoint.format.offsets import Offsets, nest_offsets
from kappa_pipelines.driver.bound import QueryBusyError, Vector
from kappa_pipelines.driver.transactions.gate import TransactionGate
from kappa_pipelines.errors import UnavailableError

READS = {"joined": {"orders": ("orders",), "items": ("items",)}, "counts": {"items": ("items",)}}


def at(orders: int, items: int) -> Offsets:
    return {("orders", 0): orders, ("items", 0): items}


@dataclass
class FakeQuery:
    """A query that has committed up to some offsets; `work` runs the batch up to the bound."""

    committed: dict[str, Offsets] = field(default_factory=dict)
    bound: dict[str, Offsets] = field(default_factory=dict)
    is_busy: bool = False

    def begin(self, ends: Mapping[str, Offsets]) -> None:
        self.bound = dict(ends)

    def move(self, ends: Mapping[str, Offsets]) -> None:
        if self.is_busy:
            raise QueryBusyError
        self.bound = dict(ends)

    def read_committed(self) -> Vector:
        return {name: nest_offsets(offsets) for name, offsets in self.committed.items()}

    def work(self) -> None:
        self.committed = dict(self.bound)


@dataclass
class FakeCuts:
    """Cuts that are known beforehand, each of which is found once."""

    begin: Offsets
    cuts: list[Offsets]
    divided: int = 0

    def find_cut(self) -> Offsets | None:
        return self.cuts[0] if self.cuts else None

    def release(self, cut: Offsets) -> None:
        assert self.cuts.pop(0) == cut

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Driver:
    """Two queries and their gate. `opened` are the readers of cuts so far."""

    cuts: list[Offsets]
    opened: list[FakeCuts] = field(default_factory=list)
    queries: dict[str, FakeQuery] = field(default_factory=lambda: {sink: FakeQuery() for sink in READS})

    def __post_init__(self) -> None:
        self.gate = TransactionGate(READS, self._open)

    def _open(self, begin: Offsets) -> FakeCuts:
        self.opened.append(FakeCuts(begin, self.cuts))
        return self.opened[-1]

    def start(self, **begun: Offsets) -> None:
        for sink, offsets in begun.items():
            found = {
                name: {each: offsets[each] for each in offsets if each[0] == name} for name in READS[sink]
            }
            self.gate.expect(sink, found)
            self.gate.begin(sink, self.queries[sink])
            self.gate.check(sink)

    def step(self) -> None:
        self.gate.step(self.queries)

    def find_bounds(self) -> tuple[int, int, int]:
        joined, counts = self.queries["joined"].bound, self.queries["counts"].bound
        return joined["orders"]["orders", 0], joined["items"]["items", 0], counts["items"]["items", 0]


def test_queries_move_together_when_all_have_read_up_to_the_last_cut() -> None:
    driver = Driver([at(2, 3), at(5, 5)])
    driver.start(joined=at(0, 0), counts=at(0, 0))
    assert driver.find_bounds() == (0, 0, 0)
    driver.step()
    assert driver.find_bounds() == (2, 3, 3)
    driver.queries["joined"].work()
    driver.step()
    assert driver.find_bounds() == (2, 3, 3), "the other query has not committed"
    driver.queries["counts"].work()
    driver.queries["counts"].is_busy = True
    driver.step()
    assert driver.find_bounds() == (5, 5, 3)
    driver.queries["counts"].is_busy = False
    driver.step()
    assert driver.find_bounds() == (5, 5, 5)


def test_after_a_crash_a_query_that_is_ahead_waits_for_a_later_cut() -> None:
    driver = Driver([at(2, 3), at(6, 8)])
    driver.start(joined=at(1, 1), counts=at(4, 4))
    driver.step()
    assert driver.opened[0].begin == at(1, 1)
    assert driver.find_bounds() == (2, 3, 4)
    for query in driver.queries.values():
        query.work()
    driver.step()
    assert driver.find_bounds() == (6, 8, 8)


def test_after_a_hold_cuts_are_looked_for_from_where_the_queries_are() -> None:
    driver = Driver([at(2, 3), at(9, 9)])
    driver.start(joined=at(0, 0), counts=at(0, 0))
    driver.step()
    driver.opened[0].divided = 1
    driver.gate.interrupt()
    driver.queries["joined"].committed = {"orders": {("orders", 0): 4}, "items": {("items", 0): 5}}
    driver.queries["counts"].committed = {"items": {("items", 0): 5}}
    driver.step()
    assert driver.opened[1].begin == at(4, 5)
    assert driver.find_bounds() == (9, 9, 9)
    assert driver.gate.divided == 1, "what the first reader has counted stays"


def test_a_query_that_started_without_a_bound_is_an_error() -> None:
    gate = TransactionGate(READS, lambda begin: FakeCuts(begin, []))
    gate.expect("counts", {"items": {("items", 0): 0}})
    with pytest.raises(UnavailableError, match="before it could be bounded"):
        gate.check("counts")
    assert not TransactionGate({}, lambda begin: FakeCuts(begin, []))


def test_the_topic_of_transactions_is_one_that_the_pipeline_reads() -> None:
    source = {
        "name": "orders", "topic": "shop.public.orders", "format": {"json": {"schema": "id INT"}},
        "envelope": {"debezium": {"columns": {"op": "op"}, "transactions": {"topic": "shop.transaction"}}},
    }  # fmt: skip
    sink = {"name": "out", "from": "orders", "kafka": {"topic": "out"}}
    spec = PipelineSpec.model_validate({"sources": [source], "sinks": [sink]})
    permissions = list_permissions(Subject(spec, {}, "kappa.shop.orders", "u"))
    assert {"shop.public.orders", "shop.transaction"} <= {each.name for each in permissions}
