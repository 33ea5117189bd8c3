"""A query that Spark still starts cannot be bounded yet, also where its checkpoint has batches of an earlier driver."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kappa_pipelines.driver.bound import QueryBound, QueryBusyError


class Starting:
    """The execution of a query whose thread has not analyzed its plan yet: what Spark sets then is None."""

    def __init__(self) -> None:
        self.locked = 0

    def getClass(self) -> Any:
        field = SimpleNamespace(get=lambda _: "milliseconds")
        units = SimpleNamespace(getField=lambda _: field)
        return SimpleNamespace(getClassLoader=lambda: SimpleNamespace(loadClass=lambda _: units))

    def awaitProgressLock(self) -> Any:
        return SimpleNamespace(tryLock=self._lock, unlock=self._unlock)

    def offsetLog(self) -> Any:
        progress = SimpleNamespace(toStreamProgress=lambda sources, ids: {})
        entry = SimpleNamespace(_2=lambda: progress)
        return SimpleNamespace(getLatest=lambda: SimpleNamespace(isEmpty=lambda: False, get=lambda: entry))

    def _lock(self, _milliseconds: int, _unit: str) -> bool:
        self.locked += 1
        return True

    def _unlock(self) -> None:
        self.locked -= 1

    def __getattr__(self, _name: str) -> Callable[[], None]:
        return lambda: None


def build_jvm() -> Any:
    limits = SimpleNamespace(maxRows=lambda records: records)
    streaming = SimpleNamespace(ReadLimit=limits)
    read = SimpleNamespace(read=SimpleNamespace(streaming=streaming))
    spark = SimpleNamespace(sql=SimpleNamespace(connector=read))
    return SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=spark)))


@pytest.mark.parametrize(
    "use",
    [
        lambda bound: bound.bind(),
        lambda bound: bound.move({}),
        lambda bound: bound.pace(1000, 0),
        lambda bound: bound.release(),
        lambda bound: bound.read_committed(),
        lambda bound: bound.has_finished(),
    ],
    ids=["bind", "move", "pace", "release", "read_committed", "has_finished"],
)
def test_a_query_that_starts_is_busy(use: Callable[[QueryBound], object]) -> None:
    execution = Starting()
    query: Any = SimpleNamespace(_jsq=SimpleNamespace(streamingQuery=lambda: execution))
    with pytest.raises(QueryBusyError):
        use(QueryBound(query, build_jvm()))
    assert execution.locked == 0
