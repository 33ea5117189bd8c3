"""When a server of MariaDB may remove changes of its binary log that the connector has not stored."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kappa_crds.cdcsource_status import BinlogStatus, LogMark
from kappa_operator.cdc.binlog import find_stored_until
from kappa_operator.cdc.facts import BinaryLog
from kappa_operator.cdcsource.expiry import explain_expiry
from unit.control.sources import MARIADB, SOURCE, Shop

NOW = datetime(2026, 1, 2, tzinfo=UTC)
BEFORE = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR = 60, 3600


@pytest.mark.parametrize(
    ("offset", "stored"),
    [
        ({"file": "log.000003", "pos": 4}, NOW),
        ({"file": "log.000003", "pos": 4, "ts_sec": int(BEFORE.timestamp())}, NOW),
        ({"file": "log.000002", "pos": 4, "ts_sec": int(BEFORE.timestamp())}, BEFORE),
        ({"file": "log.000002", "pos": 4}, None),
        ({"file": "log.000002", "pos": 4, "ts_sec": 0}, None),
        ({"file": "log.000002", "pos": 4, "ts_sec": "1"}, None),
        ({"file": "log.000002", "pos": 4, "ts_sec": 2**60}, None),
    ],
)
def test_changes_were_stored_until(offset: dict[str, Any], stored: datetime | None) -> None:
    assert find_stored_until(offset, LogMark(file="log.000003", position=9), NOW) == stored


@pytest.mark.parametrize(
    ("kept", "hours", "reason", "text"),
    [
        (None, 9999, "BinlogSafe", "the server removes no file of the binary log by age"),
        (48 * HOUR, 35, "BinlogSafe", "the server keeps files of the binary log for 2d"),
        (48 * HOUR, 36, "BinlogExpiring", "for 2d: it may remove them in 12h"),
        (48 * HOUR, 48, "BinlogExpiring", "for 2d: it may remove them at any moment"),
        (2 * HOUR, 0.9, "BinlogSafe", "for 2h"),
        (2 * HOUR, 1, "BinlogExpiring", "in 1h"),
        (0, 0, "BinlogExpiring", "at any moment"),
    ],
)
def test_a_warning_comes_before_files_are_removed(
    kept: int | None, hours: float, reason: str, text: str
) -> None:
    binlog = BinlogStatus(oldest="log.000001", retention_seconds=kept)
    found, message = explain_expiry(binlog, NOW - timedelta(hours=hours), NOW)
    assert found == reason
    assert message.endswith(text)


async def start() -> Shop:
    shop = Shop()
    shop.variables = {"binlog_expire_logs_seconds": str(40 * MINUTE)}
    await shop.prepare(**MARIADB)
    await shop.run(320)
    return shop


def read(shop: Shop) -> tuple[str, str, str]:
    return shop.operator.get_condition(SOURCE, "BinlogSafe")


async def test_a_position_in_the_last_file_is_safe() -> None:
    shop = await start()
    await shop.run(60 * MINUTE)
    assert read(shop) == ("True", "BinlogSafe", "the server keeps files of the binary log for 40m")


async def test_a_position_in_an_earlier_file_expires_and_is_reported_once() -> None:
    shop = await start()
    shop.log = BinaryLog("binlog.000001", "binlog.000007", 900, "0-1-900", 4096)
    await shop.run(10 * MINUTE)
    assert read(shop)[0] == "True"
    await shop.run(16 * MINUTE)
    status, reason, message = read(shop)
    assert (status, reason) == ("False", "BinlogExpiring")
    assert "were not stored yet, and the server keeps files of the binary log for 40m" in message
    await shop.run(20 * MINUTE)
    assert read(shop)[2].endswith("it may remove them at any moment")
    assert len(shop.operator.list_events("BinlogExpiring")) == 1
    shop.log = BinaryLog("binlog.000001", "binlog.000003", 900, "0-1-900", 4096)
    await shop.run(6 * MINUTE)
    assert read(shop)[0] == "True"


async def test_while_kafka_connect_is_away_the_time_of_before_counts() -> None:
    shop = await start()
    shop.connect.unreachable = True
    await shop.run(26 * MINUTE)
    assert read(shop)[1] == "BinlogExpiring"
    shop.connect.unreachable = False
    await shop.run(6 * MINUTE)
    assert read(shop)[0] == "True"


async def test_a_new_snapshot_begins_with_a_time_of_its_own() -> None:
    shop = await start()
    shop.write(**MARIADB, snapshot={"request": "again"})
    await shop.run(320)
    assert read(shop)[0] == "True"
    assert shop.connect.snapshots == 2
