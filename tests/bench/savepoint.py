"""What a savepoint costs: `python tests/bench/savepoint.py [--quick]`, with a broker and a driver process on this machine.

A query keeps a text of a kilobyte for each key that cannot be compressed, until its state has 10 MB, 100 MB and 1 GB (`--quick`: the first
two). Then a savepoint is taken; a hundredth of the keys get other texts, and a second one is taken. Both are timed from the request to
the report of the driver that it is done, with all files read again. Meanwhile keys keep changing, a few at a time, and each batch follows
the previous one at once: the time of a batch is that between two files in the log of commits.

The last line is one JSON object. `second_over_first` is the time of the second savepoint through that of the first, `copied_ratio` the
same of copied bytes, and `batch_growth` the median time of batches that ran while one of ten savepoints was taken through that before, each the worst of all sizes.
"""

import argparse
import json
import math
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kappa_crds.progress import Progress, SavepointProgress
from lab.broker import Broker
from spark.processes import TOKEN, DriverProcess
from spark.revisions import build_revision, source, spark_conf
from spark.topics import Topics

SIZES = (10, 100, 1000)
"""Of state, in MB."""
_TEXT_BYTES = 1000
_FEED = 50
_FEED_SECONDS = 0.1
_CALM_BATCHES = 20
_DEADLINE = 900.0
_LOOK_SECONDS = 0.02
_MORE = 8
"""Savepoints after the second: they add batches to those that run while one is taken."""

SPEC: dict[str, Any] = {
    "sources": [source("texts", "k BIGINT, text STRING")],
    "views": [
        {
            "name": "newest",
            "sql": "SELECT k, md5(last(text)) AS digest, count(*) AS n FROM texts GROUP BY k",
            "allowUnboundedState": True,
        }
    ],
    "sinks": [
        {
            "name": "out",
            "from": "newest",
            "kafka": {"topic": "out", "key": ["k"], "value": ["k", "digest", "n"]},
            "mode": "update",
        }
    ],
    "trigger": {"maxRecords": 50_000},
}


@dataclass(frozen=True)
class Cost:
    """One savepoint: seconds, and bytes that were copied; the times of the batches meanwhile, in seconds."""

    seconds: float
    copied: int
    size: int
    batches: list[float]


@dataclass
class Texts:
    """Writes texts that cannot be compressed, for keys."""

    topics: Topics
    topic: str
    keys: int
    changing: threading.Event = field(default_factory=threading.Event)

    def write(self, keys: list[int]) -> None:
        """Write a new text for each key."""
        for start in range(0, len(keys), 5000):
            records = [
                json.dumps({"k": key, "text": os.urandom(_TEXT_BYTES // 2).hex()})
                for key in keys[start : start + 5000]
            ]
            self.topics.write(self.topic, list(records))

    def write_part(self, part: float) -> None:
        """Write new texts for a part of the keys."""
        self.write(random.Random(1).sample(range(self.keys), max(1, int(self.keys * part))))

    @contextmanager
    def go_on(self) -> Iterator[None]:
        """Write a few texts all the time, until the context ends."""
        done = threading.Event()

        def feed() -> None:
            while not done.wait(_FEED_SECONDS):
                self.write([random.randrange(self.keys) for _ in range(_FEED)])

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def has_read(progress: Progress, records: int) -> bool:
    """Return whether the driver has committed so many records."""
    return bool(progress.queries) and progress.queries[0].total_input_rows >= records


def read_batches(folder: Path, since: float, until: float = math.inf) -> list[float]:
    """Return the seconds from commit to commit of all batches that ran at some time between two times."""
    commits = (path for path in (folder / "checkpoint/out/commits").iterdir() if path.name.isdigit())
    times = sorted(path.stat().st_mtime for path in commits)
    return [later - earlier for earlier, later in pairwise(times) if later > since and earlier < until]


def take(driver: DriverProcess, folder: Path, name: str) -> Cost:
    """Have a savepoint taken and return what it cost."""
    since, begun = time.time(), time.monotonic()
    status, said = driver.get(
        f"/savepoints/{name}?location=file://{folder}/savepoints", token=TOKEN, method="POST"
    )
    if status != 202:
        raise SystemExit(f"the driver takes no savepoint: {said}")
    while (done := find_done(driver.progress, name)) is None:
        time.sleep(_LOOK_SECONDS)
    seconds, until = time.monotonic() - begun, time.time()
    if done.failure is not None:
        raise SystemExit(f"{name} was not taken: {done}")
    while not read_batches(folder, until):
        time.sleep(_LOOK_SECONDS)
    return Cost(seconds, done.copied_bytes, done.size_bytes, read_batches(folder, since, until))


def find_done(progress: Progress | None, name: str) -> SavepointProgress | None:
    """Return the savepoint of a name once it has ended."""
    known = () if progress is None else progress.savepoints
    return next((each for each in known if each.name == name and each.done), None)


def measure(broker: Broker, megabytes: int) -> dict[str, float]:
    """Return the ratios for one size of state."""
    topics = Topics(broker.bootstrap)
    names = {"texts": topics.make("texts"), "out": topics.make("out")}
    texts = Texts(topics, names["texts"], megabytes * 1000)
    with tempfile.TemporaryDirectory(prefix="kappa-bench-") as kept:
        folder = Path(kept)
        conf = {**spark_conf(), "spark.driver.memory": "3g"}
        revision = build_revision(
            SPEC, f"file://{folder}/checkpoint", broker.bootstrap, topics=names, spark_conf=conf
        )
        driver = DriverProcess(folder, revision, 1)
        try:
            texts.write(list(range(texts.keys)))
            driver.wait_for("all is read", lambda p: has_read(p, texts.keys), _DEADLINE)
            with texts.go_on():
                since = time.time()
                while len(read_batches(folder, since)) < _CALM_BATCHES:
                    time.sleep(0.5)
                calm = read_batches(folder, since)
                first = take(driver, folder, "first")
                texts.write_part(0.01)
                time.sleep(5)
                second = take(driver, folder, "second")
                more = [take(driver, folder, f"more-{number}") for number in range(_MORE)]
        finally:
            driver.kill()
    meanwhile = [seconds for cost in (first, second, *more) for seconds in cost.batches]
    found = {
        "second_over_first": second.seconds / first.seconds,
        "copied_ratio": second.copied / first.copied,
        "batch_growth": median(meanwhile) / median(calm),
    }
    print(
        f"{megabytes} MB: first {first.seconds:.2f} s, {first.copied / 1e6:.1f} of {first.size / 1e6:.1f} MB copied; second {second.seconds:.2f} s,"
        f" {second.copied / 1e6:.1f} of {second.size / 1e6:.1f} MB; batches of {median(calm):.2f} s, {len(meanwhile)} meanwhile",
        flush=True,
    )
    return found


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="10 and 100 MB alone")
    sizes = SIZES[:2] if arguments.parse_args().quick else SIZES
    with Broker() as broker:
        found = [measure(broker, size) for size in sizes]
    print(json.dumps({name: round(max(each[name] for each in found), 3) for name in found[0]}))


if __name__ == "__main__":
    main()
