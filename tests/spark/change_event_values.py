"""Random change events of Debezium for comparisons of two ways to read them: mostly valid, and odd in all ways that occurred to us."""

import base64
import json
from collections.abc import Callable
from random import Random
from typing import Any

from kappa_crds.envelope import DebeziumEnvelope

Event = tuple[bytes | None, bytes | None, int]
"""Key, value and offset of a record."""
_UNAVAILABLE = "__debezium_unavailable_value"
_NUMBERS: tuple[Any, ...] = (0, 1, -1, 5, 127, 128, -129, 40000, 2**31 - 1, 2**31, -(2**63), 2**63 - 1, 2**63)
_ODD: tuple[Any, ...] = (
    *("", "x", "null", "1", "-5", "true", "1.5", "NaN", " 7 ", True, False, 1.5, -0.0, 1e300, {}, [], {"a": 1}, ["x"], [1.5], "{\"a\":[\"x\"]}"),
    *("2013-02-30", "2013-02-28", "20130228", "2013", "2013-02-28T01:02:03Z", "2013-02-28 01:02:03.5", "0044-03-15", "-44-03-15", "12:00"),
    *("AQ==", "AQ=", "A Q==", "____", _UNAVAILABLE, [_UNAVAILABLE], {_UNAVAILABLE: _UNAVAILABLE}, "zwölf 😀", "a\"b\\\n", "x" * 300),
)  # fmt: skip
_TEXTS = "", "x", "null", "zwölf 😀", 'a"b\\\n', "a" * 100, "{}", "[1]"
_TYPES = (
    *("BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "DECIMAL(10,2)", "DECIMAL(38,10)", "DECIMAL(38,0)", "STRING", "STRING"),
    *("BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "ARRAY<STRING>", "ARRAY<INT>", "STRUCT<a: ARRAY<STRING>>", "MAP<STRING,DOUBLE>"),
)  # fmt: skip
_NAMES = "b", "B2", "größe", "a b", "x.y", "payload", "schema", "op"
_COLUMNS = {
    "op": "op_", "deleted": "deleted_", "truncated": "truncated_", "version": "version_", "before": "before_", "time": "time_",
    "snapshot": "snapshot_", "table": "table_", "position": "position_", "transaction": "tx", "transactionOrder": "tx_order",
}  # fmt: skip
_UNITS = "Milliseconds", "Microseconds", "Nanoseconds"


def make_format(random: Random) -> tuple[str, DebeziumEnvelope]:
    """Return random columns as DDL, and an envelope."""
    others = [(name, random.choice(_TYPES)) for name in random.sample(_NAMES, random.randint(0, 4))]
    fields = [("id", random.choice(("BIGINT", "INT", "STRING"))), *others]
    wanted = dict(_COLUMNS) if random.random() < 0.5 else {"op": "op_"}
    if len(wanted) == 1:
        wanted |= dict(random.sample(sorted(_COLUMNS.items()), random.randint(0, 5)))
    times = [name for name, kind in fields if kind.startswith("TIMESTAMP")]
    envelope = {
        "columns": wanted,
        "decimals": random.choice(("Base64", "Base64", "Text")),
        **({"timestampUnits": {name: random.choice(_UNITS) for name in times}} if times and random.random() < 0.6 else {}),
    }  # fmt: skip
    return ", ".join(f"`{name}` {kind}" for name, kind in fields), DebeziumEnvelope.model_validate(envelope)


class Events:
    """Makes events of a table. `odd` is the part of them that has something unusual."""

    def __init__(
        self, random: Random, fields: list[tuple[str, str]], *, text_decimals: bool, odd: float
    ) -> None:
        self._random, self._fields, self._odd = random, fields, odd
        self._text_decimals, self._is_odd = text_decimals, False

    def make(self) -> Event:
        """Return an event."""
        random = self._random
        self._is_odd = random.random() < self._odd
        op = random.choice("ccuuudddr") if not self._is_odd else random.choice((*"cudrtm", "", "x", None, 5))
        key: Any = {"id": self._row()["id"]} if random.random() < 0.9 else self._row()
        if random.random() < 0.2:
            key = {"schema": {"type": "struct"}, "payload": key}
        if random.random() < 0.05:
            return self._write(key), None, random.randint(0, 2**40)
        before = self._row() if op == "d" or random.random() < 0.4 else None
        if op == "d" and before is not None and random.random() < 0.5:
            before = dict.fromkeys(before) | {"id": before["id"]}
        event: dict[str, Any] = {
            "before": before,
            "after": None if op == "d" else self._row(),
            "source": self._source(),
            "transaction": random.choice((None, {"id": "7:1", "total_order": 3, "data_collection_order": 1})),
            "op": op,
            "ts_ms": 1,
        }
        if self._is_odd:
            self._damage(event)
        if random.random() < 0.2:
            event = {"schema": {"type": "struct", "fields": [{"field": "op"}]}, "payload": event}
            event |= {"op": "c"} if self._is_odd and random.random() < 0.3 else {}
        return self._write(key), self._write(event), random.randint(0, 2**40)

    def _write(self, value: Any) -> bytes | None:
        random = self._random
        text = json.dumps(
            value,
            ensure_ascii=self._is_odd and random.random() < 0.5,
            separators=(",", ":") if random.random() < 0.8 else None,
        )
        if self._is_odd and random.random() < 0.2:
            cut = random.randint(0, len(text))
            damaged: tuple[Callable[[], str], ...] = (
                *(lambda: text[:cut], lambda: text[:cut] + "x" + text[cut:], lambda: text + text, lambda: "", lambda: " ", lambda: f"[{text}]"),
                *(lambda: text.replace(":", " : "), lambda: text.replace("null", "1.50"), lambda: text.replace('"op"', '"op":"c","op"')),
            )  # fmt: skip
            text = random.choice(damaged)()
        content = text.encode("utf-8", "surrogatepass")
        if self._is_odd and random.random() < 0.1:
            return random.choice((None, content.replace(b"a", b"\xff"), b"\xef\xbb\xbf" + content))
        return content

    def _damage(self, event: dict[str, Any]) -> None:
        random = self._random
        for _ in range(random.randint(0, 2)):
            part = random.choice(sorted(event))
            makers: tuple[Callable[[], Any], ...] = (
                lambda part=part: event.pop(part, None),  # type: ignore[misc]
                lambda part=part: event.update({part: random.choice(_ODD)}),  # type: ignore[misc]
                lambda: self._damage_source(event),
            )
            random.choice(makers)()

    def _damage_source(self, event: dict[str, Any]) -> None:
        """Change a field. Spark's functions fail on a time or a position after 2^63, so these have no such numbers."""
        source = event.get("source")
        if isinstance(source, dict) and source:
            name = self._random.choice(sorted(source))
            numbers = _NUMBERS if name == "lsn" else _NUMBERS[:10]
            event["source"] = {**source, name: self._random.choice((*_ODD, *numbers))}

    def _source(self) -> dict[str, Any]:
        random = self._random
        snapshot = random.choice(("false", "false", "true", "first", "incremental", False, True))
        lsns = json.dumps([random.choice((None, "12")), "34"], separators=(",", ":"))
        common = {
            "version": "3",
            "ts_ms": random.choice((1_700_000_000_123, 0)),
            "snapshot": snapshot,
            "table": "t",
        }
        postgres = {
            "schema": "public",
            "lsn": random.choice((17, 2**40, 17, None)),
            "sequence": lsns,
            "txId": 9,
        }
        mysql = {"db": "ware", "server_id": random.choice((0, 7)), "file": "binlog.000012", "pos": 3417, "gtid": random.choice((None, "0-1-2")), "sequence": None}  # fmt: skip
        return common | random.choice((postgres, mysql))

    def _row(self) -> dict[str, Any]:
        found = {name: self._value(kind) for name, kind in self._fields}
        if self._random.random() < 0.1:
            found["unknown"] = self._random.choice(_ODD)
        others = sorted(found.keys() - {"id"})
        if others and self._random.random() < 0.1:
            found.pop(self._random.choice(others))
        return found

    def _value(self, kind: str) -> Any:
        random = self._random
        if self._is_odd and random.random() < 0.2:
            return random.choice((*_ODD, *_NUMBERS, _encode(random.randint(-(2**150), 2**150))))
        if random.random() < 0.1:
            return None
        if random.random() < 0.05 and kind == "STRING":
            return _UNAVAILABLE
        return self._valid(kind)

    def _valid(self, kind: str) -> Any:
        random = self._random
        if kind.startswith("DECIMAL"):
            return self._decimal(kind)
        makers: dict[str, Callable[[], Any]] = {
            "STRING": lambda: random.choice((*_TEXTS, 5, True)),
            "BOOLEAN": lambda: random.choice((True, False, 0, 1)),
            "DATE": lambda: random.choice((random.randint(-800_000, 800_000), "2013-02-28", "0044-03-15")),
            "TIMESTAMP": lambda: random.choice((random.randint(-(10**15), 10**15), "2013-02-28T01:02:03.123456Z", "2013-02-28T01:02:03+02:00")),
            "TIMESTAMP_NTZ": lambda: random.randint(-(10**15), 10**15),
            "BINARY": lambda: random.choice(("AAEC", "AAE=", "", "/+8=", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")),
            "ARRAY<STRING>": lambda: random.choice((["a", None, "zwölf"], [], [_UNAVAILABLE], ["\n"])),
            "ARRAY<INT>": lambda: random.choice(([1, None, -5], [])),
            "STRUCT<a: ARRAY<STRING>>": lambda: random.choice(('{"a": ["x", null]}', "null", {"a": ["x"]}, '{"b":1}', "{}")),
            "MAP<STRING,DOUBLE>": lambda: random.choice(('{"a": 1.5}', {"a": 1, "b": None}, {"a": 1.5})),
        }  # fmt: skip
        if kind in makers:
            return makers[kind]()
        if kind in ("DOUBLE", "FLOAT"):
            return random.choice(
                (
                    random.uniform(-1, 1),
                    random.uniform(-1e9, 1e9),
                    1.5,
                    7,
                    1e-7,
                    16777217,
                    0.1,
                    "NaN",
                    "-Infinity",
                )
            )
        bits = {"BIGINT": 63, "INT": 31, "SMALLINT": 15, "TINYINT": 7}[kind]
        return random.randint(-(2**bits), 2**bits - 1) >> random.randint(0, bits)

    def _decimal(self, kind: str) -> Any:
        random = self._random
        number = random.randint(-(2**127), 2**127) >> random.randint(0, 127)
        if self._text_decimals:
            return random.choice((f"{number / 10**20:.3f}", "12.345", "-0.5", "1", 12.5, -3, 0.1))
        small = random.randint(-(10**9), 10**9)
        fits = _encode(random.choice((number, small)) if kind.startswith("DECIMAL(38") else small)
        return random.choice((fits, fits, {"scale": random.randint(-2, 12), "value": fits}))


def _encode(number: int) -> str:
    """Return the unscaled number as Debezium writes it."""
    content = number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)
    return base64.b64encode(content).decode()
