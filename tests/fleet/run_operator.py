"""The real operator as a process, with drivers at the port of the first argument: on a Kafka in memory, unless the second one is real."""

import asyncio
import json
import os
import sys
import time
from bisect import insort
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fakes.fuse import Fuse
from fakes.kafka import FakeBroker, FakeKafka
from fakes.samples import FakeSamples
from kappa_operator import __main__ as operator
from kappa_operator.pipeline import pods
from kappa_operator.settings import Settings

PAUSE = 0.02
_RUN = operator.run


class Kafka(FakeKafka):
    """One cluster in memory."""

    def __init__(self) -> None:
        super().__init__({"kafka:9092": FakeBroker()}, Fuse())

    async def close(self) -> None:
        """Do nothing."""


class Sweeps(FakeSamples):
    """No lag of Kafka's own is sampled."""

    def list_found(self) -> list[Any]:
        """Return nothing."""
        return []

    async def run(self) -> None:
        """Wait until cancelled."""
        await asyncio.Event().wait()


class Pulse:
    """How long the event loop lets a timer wait, from second to second in the file that BENCH_PULSE names."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._delays: list[float] = []

    async def run(self) -> None:
        """Measure until cancelled."""
        written = time.monotonic()
        while True:
            begun = time.monotonic()
            await asyncio.sleep(PAUSE)
            now = time.monotonic()
            insort(self._delays, now - begun - PAUSE)
            if now > written + 1:
                written = now
                self._write()

    def _write(self) -> None:
        count = len(self._delays)
        p50, p99, most = (self._delays[min(count - 1, int(count * part))] for part in (0.5, 0.99, 1.0))
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps({"p50": p50, "p99": p99, "max": most, "cpu": time.process_time()}))
        draft.rename(self._path)


async def run(settings: Settings) -> None:
    """Run the operator, and measure its event loop."""
    pulse = asyncio.create_task(Pulse(Path(os.environ["BENCH_PULSE"])).run())
    await _RUN(settings)
    pulse.cancel()


if __name__ == "__main__":
    if "BENCH_PULSE" in os.environ:
        setattr(operator, "run", run)  # noqa: B010 - as above
    setattr(pods, "CONTROL_TLS_PORT", int(sys.argv[1]))  # noqa: B010 - a pod's port is fixed
    fakes = {"AdminClients": Kafka, "Sampling": lambda *_, **_more: Sweeps()}
    for name, fake in fakes.items() if "real" not in sys.argv else ():
        setattr(operator, name, fake)
    operator.main()
