"""A scene is copied after some of its writes only, each as likely as another, and after all of them where all are tried."""

import copy
from itertools import pairwise

import pytest

import effort
from effort import Deaths


def count(writes: int, most: int | None = None) -> tuple[list[int], int]:
    """Return after which writes a run lets the operator die, and how many copies it made."""
    made: list[None] = []
    deaths = Deaths(lambda: made.append(None), most)
    for _ in range(writes):
        deaths.wrote()
    return [number for number, _ in deaths.find()], len(made)


@pytest.fixture
def some(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this run try some of the writes, also where all are tried."""
    monkeypatch.setattr(effort, "ALL", False)


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5, 6, 17])
def test_a_fifth_of_the_writes_and_one_at_least(some: None, writes: int) -> None:
    for _ in range(50):
        found, copies = count(writes)
        assert 1 <= len(found) <= -(-writes // 5)
        assert set(found) <= set(range(1, writes + 1))
        assert {later - earlier for earlier, later in pairwise(found)} <= {5}
        assert copies <= len(found) + 1


def test_every_write_has_its_turn(some: None) -> None:
    seen: set[int] = set()
    for _ in range(400):
        found, copies = count(60, most=4)
        assert len(found) == 4
        assert copies < 20
        seen.update(found)
    assert seen == set(range(1, 61))


def test_all_of_them_where_all_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effort, "ALL", True)
    assert count(7, most=4) == ([1, 2, 3, 4, 5, 6, 7], 7)


def test_a_scene_without_a_write_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="nothing was written"):
        count(0)


def test_a_copied_scene_does_not_copy_the_copies() -> None:
    deaths: Deaths[list[None]] = Deaths(list)
    assert copy.deepcopy(deaths.wrote) == deaths.wrote
