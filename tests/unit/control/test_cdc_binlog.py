"""Whether a binary log still has the changes after a position: what the server has at marks, and what that means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kappa_crds.cdcsource_status import BinlogStatus, LogMark
from kappa_operator.cdc.binlog import find_binlog_loss, find_mark, is_before, parse_gtids
from kappa_operator.cdc.work import AskedMark

NOW = BinlogStatus(oldest="binlog.000002", end=LogMark(file="binlog.000007", position=500, gtids="0-1-90"))
POSITION = LogMark(file="binlog.000005", position=400, gtids="0-1-60")


def ask(gtids: str | None, *, is_exact: bool = False, mark: LogMark = POSITION) -> tuple[AskedMark, ...]:
    return (AskedMark(mark=mark, is_exact=is_exact, gtids=gtids),)


def judge(*asked: AskedMark, position: LogMark | None = POSITION) -> str | None:
    return find_binlog_loss(None, NOW, asked, position)


def test_the_offset_of_a_connector_is_a_mark() -> None:
    offset = {"file": "binlog.000005", "pos": 400, "gtids": "0-1-60", "ts_sec": 1, "server_id": 1}
    assert find_mark(offset) == POSITION
    assert find_mark({"lsn": 4}) is None
    assert find_mark({"file": "binlog.000001", "pos": 4}) == LogMark(file="binlog.000001", position=4)


@pytest.mark.parametrize("file", ["a\nb.000001", "x" * 300, "../etc.000001", "", None, 7])
def test_a_text_that_is_no_name_of_a_file_is_no_mark(file: object) -> None:
    assert find_mark({"file": file, "pos": 4}) is None


def test_transactions_that_are_not_those_of_mariadb_are_left_out() -> None:
    mark = find_mark({"file": "binlog.000001", "pos": 4, "gtids": "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5"})
    assert mark == LogMark(file="binlog.000001", position=4)


def test_a_log_with_what_is_expected_at_its_marks_lost_nothing() -> None:
    assert judge(*ask("0-1-60"), *ask("0-1-60", is_exact=True)) is None


def test_a_connector_that_has_just_started_has_a_position_before_its_transactions() -> None:
    """Debezium stores the begin of a file with the transactions that it continues after."""
    assert judge(*ask("0-1-41")) is None
    assert "after 0-1-60" in (judge(*ask("0-1-61")) or "")
    assert "it was reset" in (judge(*ask("0-1-41", is_exact=True)) or "")


def test_a_position_that_the_log_does_not_have_is_lost() -> None:
    assert "does not have binlog.000005 at 400 any more" in (judge(*ask(None)) or "")


def test_a_removed_file_is_no_loss_for_a_connector_that_has_read_further() -> None:
    """The check saw the position of before; the connector has moved on meanwhile."""
    old = LogMark(file="binlog.000001", position=4, gtids="0-1-2")
    assert judge(*ask(None, mark=old), *ask(None, mark=old, is_exact=True)) is None
    assert "the binary log begins with binlog.000002" in (judge(*ask(None, mark=old), position=old) or "")


def test_without_a_position_nothing_can_be_lost() -> None:
    assert judge(*ask(None), position=None) is None


def test_another_server_of_mysql_is_another_log() -> None:
    before = BinlogStatus(server="uuid-1", oldest="binlog.000001")
    now = NOW.replace(server="uuid-2")
    assert "it was uuid-1 and is uuid-2" in (find_binlog_loss(before, now, (), POSITION) or "")
    assert find_binlog_loss(before.replace(server=""), now, (), POSITION) is None


@pytest.mark.parametrize(
    ("file", "oldest", "is_gone"),
    [
        ("binlog.000009", "binlog.000010", True),
        ("binlog.999999", "binlog.1000000", True),
        ("binlog.000010", "binlog.000010", False),
        ("old.000001", "binlog.000010", False),
        ("strange", "binlog.000010", False),
    ],
)
def test_files_are_compared_by_their_numbers(file: str, oldest: str, is_gone: bool) -> None:
    assert is_before(file, oldest) is is_gone


@given(st.text())
def test_text_of_a_server_is_no_reason_to_fail(text: str) -> None:
    assert all(number >= 0 for number in parse_gtids(text).values())


def test_the_last_transaction_of_each_domain_counts() -> None:
    assert parse_gtids("0-1-100,0-2-101,3-1-7") == {0: 101, 3: 7}
