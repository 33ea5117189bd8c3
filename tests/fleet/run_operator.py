"""The real operator as a process, with drivers at the port of the first argument: on a Kafka in memory, unless the second one is real."""

import asyncio
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fakes.fuse import Fuse
from fakes.kafka import FakeBroker, FakeKafka
from fakes.samples import FakeSamples
from kappa_operator import __main__ as operator
from kappa_operator.pipeline import pods


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


if __name__ == "__main__":
    setattr(pods, "CONTROL_TLS_PORT", int(sys.argv[1]))  # noqa: B010 - a pod's port is fixed
    fakes = {"AdminClients": Kafka, "Sampling": lambda *_, **_more: Sweeps()}
    for name, fake in fakes.items() if "real" not in sys.argv else ():
        setattr(operator, name, fake)
    operator.main()
