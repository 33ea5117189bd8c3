"""State in Python: what is stored is what is read, without code, and key groups do not change what a step does."""

import ast
import os
import pickle
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kappa_pipelines
from kappa_pipelines.transforms.key_groups import KEY_GROUPS, Output, Row, _KeyGroups
from kappa_pipelines.transforms.stored import Kept, decode, encode, is_pickled, read_pickled

# Values of every Spark type reach a step as one of these: times and dates as whole numbers or text, nested rows as JSON.
TEXTS = st.text(st.characters(exclude_categories=()))
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**38), 10**38),
    st.floats(),
    st.decimals(allow_nan=False),
    TEXTS,
    st.binary(),
)
KEYS = TEXTS.filter(lambda text: text != "\0")
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4)
)


@given(kept=st.dictionaries(KEYS, VALUES, max_size=5))
def test_state_is_read_as_it_was_stored(kept: Kept) -> None:
    assert repr(decode(encode(kept))) == repr(kept)


def test_tuples_are_read_as_lists_and_other_types_are_refused() -> None:
    assert decode(encode({"k": (1, (b"\0\xff", Decimal("1.50")))})) == {
        "k": [1, [b"\0\xff", Decimal("1.50")]]
    }
    with pytest.raises(TypeError, match="set cannot be stored"):
        encode({"k": {1}})


@given(kept=st.dictionaries(KEYS, VALUES, max_size=5))
def test_pickles_of_data_are_read(kept: Kept) -> None:
    content = pickle.dumps(kept, protocol=5)
    assert is_pickled(content)
    assert not is_pickled(encode(kept))
    assert repr(read_pickled(content)) == repr(kept)


class Attack:
    """What a hostile store would put in place of state."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self._made = call, arguments

    def __reduce__(self) -> Any:
        return self._made


@pytest.mark.parametrize(
    "attack",
    [
        Attack(os.system, "touch /tmp/attacked"),
        Attack(eval, "1"),
        Attack(getattr, Decimal, "__init__"),
        Decimal.from_float,
        pickle.Unpickler,
    ],
)
def test_a_pickle_that_names_anything_but_data_is_refused(attack: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="state may not name"):
        read_pickled(pickle.dumps({"k": attack}, protocol=5))


def test_only_the_reader_of_old_state_imports_a_format_with_code() -> None:
    root = Path(kappa_pipelines.__file__).parent
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if {"pickle", "cloudpickle", "marshal", "shelve", "dill"} & set(list_imports(path))
    }
    assert found == {"transforms/stored.py"}
    calls = ast.walk(ast.parse((root / "transforms/stored.py").read_text()))
    used = {
        node.attr for node in calls if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pickle"
    }
    assert used == {"PROTO", "Unpickler", "UnpicklingError"}


def list_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


class Value:
    """A state of Spark with one value."""

    def __init__(self) -> None:
        self.value: Any = None

    def get(self) -> Any:
        return self.value

    def update(self, value: Any) -> None:
        self.value = value


class Map(dict[Any, Any]):
    """A state of Spark with a value for each key."""

    getValue = dict.get

    def updateValue(self, key: Any, value: Any) -> None:
        self[key] = value

    def iterator(self) -> Iterator[Any]:
        yield from self.items()


class Shard:
    """A shard with its state; also Spark's handle and its time."""

    def __init__(self, watermark: int = 0) -> None:
        self.states: dict[str, Any] = {"keys": Value(), "groups": Map()}
        self.timers: set[int] = set()
        self.watermark = watermark
        self._groups = _KeyGroups(
            Reminders(), ("key", "time"), Output({"key": "STRING"}, time="time"), 0, None
        )
        self._groups.init(self)  # type: ignore[arg-type]

    def getValueState(self, name: str, *schemas: str) -> Any:
        return self.states[name]

    getMapState = getValueState

    def __getattr__(self, name: str) -> Any:
        return {"registerTimer": self.timers.add, "deleteTimer": self.timers.remove}[name]

    def getCurrentWatermarkInMs(self) -> int:
        return self.watermark

    def run(self, rows: Sequence[Row]) -> list[Row]:
        return list(self._groups._run(rows, self))

    def fire(self, watermark: int) -> list[Row]:
        """Advance the watermark, and return the output if a timer fires."""
        self.watermark = watermark
        due = {timer for timer in self.timers if timer < watermark}
        return self.run([]) if due else []


class Reminders:
    """A step that returns keys when the watermark has reached their times."""

    def advance(self, kept: Kept, rows: Sequence[Row], watermark: int) -> list[Row]:
        kept.update(dict(rows))
        due = [(key, time) for key, time in kept.items() if time <= watermark]
        for key, _ in due:
            del kept[key]
        return due

    def find_wake(self, kept: Kept) -> int | None:
        return min(kept.values(), default=None)


ROWS = st.dictionaries(
    st.text(max_size=3).filter(lambda text: text != "\0"), st.integers(1, 60_000), max_size=KEY_GROUPS * 2
)


def wait_for_all(shard: Shard, rows: dict[str, int], made: list[Row]) -> None:
    for watermark in (*range(1, 62, 3), 100):
        new = shard.fire(watermark)
        assert all(time <= watermark * 1000 for _, time in new)
        assert all(time > (watermark - 3) * 1000 for _, time in new if watermark <= 61)
        made += new
    assert sorted(made) == sorted(rows.items())
    assert shard.timers == set()


@given(rows=ROWS, cut=st.integers(0, 200))
def test_each_key_group_waits_for_its_own_time(rows: dict[str, int], cut: int) -> None:
    shard, given_rows = Shard(), list(rows.items())
    made = shard.run(given_rows[:cut]) + shard.run(given_rows[cut:])
    wait_for_all(shard, rows, made)


@given(rows=ROWS.filter(bool))
def test_a_pickled_shard_is_stored_by_key_groups_and_continues(rows: dict[str, int]) -> None:
    shard, wake = Shard(), min(rows.values())
    timer = -(-wake // 1000) - 1
    shard.states["keys"].value = (pickle.dumps(rows, protocol=5), timer)
    shard.timers.add(timer)
    made = shard.run([])
    assert not is_pickled(shard.states["keys"].value[0])
    wait_for_all(shard, rows, made)


def test_a_row_rewrites_the_state_of_its_key_group_only() -> None:
    shard = Shard()
    shard.run([(str(number), 10) for number in range(1000)])
    before = dict(shard.states["groups"])
    shard.run([("7", 5)])
    changed = {number for number, content in shard.states["groups"].items() if before[number] != content}
    assert len(before) == KEY_GROUPS
    assert len(changed) == 1
