"""Which changes a snapshot of PostgreSQL has: those of transactions that had committed when it was taken.

Source of the rules: PostgreSQL, "System Information Functions: Transaction ID and Snapshot Information Functions". An event has the
lower 32 bits of the id of its transaction, which are used again after four billion transactions.
"""

from dataclasses import dataclass

from kappa_operator.cdc.reconcile.model import format_lsn

_BITS = 32
_HALF, _MASK = 1 << (_BITS - 1), (1 << _BITS) - 1


@dataclass(frozen=True)
class Snapshot:
    """A snapshot, and the end of the log when it was taken. All transactions of it had committed before `lsn`.

    `xmin`, `xmax` and `in_progress` are ids of 64 bits. Below `settled` each change in the log belongs to a transaction that had ended.
    `text` is the position as the database writes it, where that is no LSN.
    """

    lsn: int
    xmin: int
    xmax: int
    in_progress: frozenset[int] = frozenset()
    settled: int = 0
    text: str = ""

    @property
    def name(self) -> str:
        """Return the position as the database writes it."""
        return self.text or format_lsn(self.lsn)

    def has(self, position: int | None, transaction: int | None) -> bool:
        """Return whether the snapshot has a change at this position of the log.

        Without a position it does. Rows of Debezium's own snapshots have the position of their reading, and no transaction.
        """
        if position is None:
            return True
        if transaction is None:
            return position <= self.lsn
        if position >= self.lsn or position < self.settled:
            return position < self.settled
        widened = widen(transaction, self.xmax)
        return widened < self.xmin or (widened < self.xmax and widened not in self.in_progress)


def widen(transaction: int, near: int) -> int:
    """Return the id of 64 bits with these lower 32 bits that is nearest to another one."""
    offset = (transaction - near) & _MASK
    return near + (offset - (1 << _BITS) if offset >= _HALF else offset)


def parse_snapshot(text: str, lsn: int, settled: int = 0) -> Snapshot:
    """Return the snapshot that PostgreSQL writes as XMIN:XMAX:XIP,XIP,…"""
    xmin, xmax, rest = text.split(":")
    return Snapshot(lsn, int(xmin), int(xmax), frozenset(map(int, filter(None, rest.split(",")))), settled)
