"""What all test processes share: no limits of time, and fewer searches of Python's collector of cycles."""

import gc

from hypothesis import settings

# An example takes as long as the machine needs; without this, Hypothesis fails one that takes more than 200 ms.
settings.register_profile("kappa", deadline=None)
settings.load_profile("kappa")


def pytest_collection_finish() -> None:
    """Leave out modules and the collected tests, and search less often: that is 8 % of the processor time of unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
