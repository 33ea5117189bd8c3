"""Whether the binary log of MySQL or MariaDB still has all changes after the last one that the connector has stored. Pure.

A log may be reset, or be that of another server, and then have files of the same names and transactions of the same numbers: Debezium
would continue there, and what is between is gone. So each check remembers the end of the log as a mark, and the next one asks the
server for the transactions at that mark. In the same log they are the same.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from kappa_crds.cdcsource_status import BinlogStatus, LogMark
from kappa_operator.cdc.work import AskedMark

_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")
_NUMBERED = re.compile(r"(.+)\.(\d+)")
_FILE, _GTIDS = re.compile(r"[\w.-]{1,255}", re.ASCII), re.compile(r"[\d,-]{0,400}", re.ASCII)


def find_mark(offset: Mapping[str, Any]) -> LogMark | None:
    """Return the position in an offset of Debezium for MySQL or MariaDB; None where it has none yet."""
    file, position = offset.get("file"), offset.get("pos")
    if not is_file(file) or not isinstance(position, int):
        return None
    return LogMark(file=str(file), position=position, gtids=clean_gtids(offset.get("gtids")))


def is_file(name: object) -> bool:
    """Return whether a text is the name of a file of the log. Names get into messages, and others are text of a server."""
    return isinstance(name, str) and _FILE.fullmatch(name) is not None


def clean_gtids(text: object) -> str:
    """Return transactions as MariaDB writes them; nothing for another text, such as the longer ones of MySQL."""
    return text if isinstance(text, str) and _GTIDS.fullmatch(text) else ""


def find_stored_until(offset: Mapping[str, Any], end: LogMark | None, now: datetime) -> datetime | None:
    """Return the time up to which changes were stored, at least; None where it is not known.

    The server removes a file when its last change is old enough, and never the last file. So a position in that one counts as now, and
    another one as its own time. Source: Debezium, `ts_sec` of an offset.
    """
    mark, seconds = find_mark(offset), offset.get("ts_sec")
    if mark is not None and end is not None and mark.file == end.file:
        return now.replace(microsecond=0)
    if not isinstance(seconds, int) or not 0 < seconds <= now.timestamp():
        return None
    return datetime.fromtimestamp(seconds, UTC)


def find_binlog_loss(
    before: BinlogStatus | None,
    now: BinlogStatus | None,
    asked: tuple[AskedMark, ...],
    position: LogMark | None,
) -> str | None:
    """Return why changes were lost, None where none were. `before` and `now` are the log at the last check and at this one.

    `asked` are the marks that the server was asked for, and `position` is that of the connector, read after the check.
    """
    if now is None or position is None:
        return None
    if before is not None and before.server and now.server and before.server != now.server:
        return f"the server is another one: it was {before.server} and is {now.server}, so positions in its log mean nothing in the new one"
    if is_before(position.file, now.oldest):
        return (
            f"the binary log begins with {now.oldest}, after {position.file}, which has the last change that was stored: its retention"
            " or PURGE BINARY LOGS removed the changes after that"
        )
    return next((why for each in asked if (why := _explain(each, now)) is not None), None)


def _explain(asked: AskedMark, now: BinlogStatus) -> str | None:
    """Return why a mark is not in the log, None where it is, or was removed with its file."""
    mark, here = asked.mark, f"{asked.mark.file} at {asked.mark.position}"
    if is_before(mark.file, now.oldest):
        return None
    if asked.gtids is None:
        return f"the binary log does not have {here} any more: it was reset, or is that of another server"
    if asked.is_exact and asked.gtids != mark.gtids:
        return f"the binary log has {asked.gtids or 'nothing'} in {here} and had {mark.gtids or 'nothing'}: it was reset, or is that of another server"
    if not asked.is_exact and not _follows(mark.gtids, asked.gtids):
        return f"the binary log has {asked.gtids} in {here}, after {mark.gtids or 'nothing'}, the last transaction that was stored: it was reset, or is that of another server"
    return None


def is_before(file: str, oldest: str) -> bool:
    """Return whether a file of the log was removed: its number is smaller than that of the oldest one. Other names are not compared."""
    left, right = _NUMBERED.fullmatch(file), _NUMBERED.fullmatch(oldest)
    return left is not None and right is not None and left[1] == right[1] and int(left[2]) < int(right[2])


def _follows(gtids: str, earlier: str) -> bool:
    """Return whether transactions of MariaDB include earlier ones. A connector that has just started has a position before them."""
    last, first = parse_gtids(gtids), parse_gtids(earlier)
    return not last or all(domain in last and last[domain] >= number for domain, number in first.items())


def parse_gtids(text: str) -> dict[int, int]:
    """Return the number of the last transaction of each domain, from MariaDB's list of DOMAIN-SERVER-NUMBER."""
    found: dict[int, int] = {}
    for domain, _, number in _GTID.findall(text):
        found[int(domain)] = max(found.get(int(domain), 0), int(number))
    return found
