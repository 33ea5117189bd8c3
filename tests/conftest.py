"""Fewer searches of Python's collector of cycles: what is there before the first test lives as long as the process."""

import gc


def pytest_collection_finish() -> None:
    """Leave out modules and the collected tests, and search less often: that is 8 % of the processor time of unit tests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
