"""The pipelines that several tests look at. Not in conftest, of which pytest and an import have one each."""

import uuid
from dataclasses import dataclass

from e2e.driver_watch import DriverWatch
from e2e.ledger import Ledger
from e2e.place import Place
from e2e.volume import SmallVolume
from lab.broker import Broker

USER, PASSWORD = "alice", f"correct-horse-{uuid.uuid4().hex}"


@dataclass(frozen=True)
class Counting:
    """A pipeline that counts while records are written all the time, and what watches over it."""

    place: Place
    ledger: Ledger
    drivers: DriverWatch

    def check(self, seconds: float = 240) -> None:
        """Whatever happened: all that was written before is counted once, within a time, and no two drivers were alive."""
        try:
            self.ledger.catch_up(seconds)
        except AssertionError as error:
            self.place.fail(str(error))
        self.drivers.check()


@dataclass(frozen=True)
class Guarded(Counting):
    """The same count behind a log-in, on a volume that can be filled."""

    broker: Broker
    volume: SmallVolume
