"""Observation only reads: it works on seams that refuse everything else."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import pytest

from kappa_operator.engine.context import OperatorContext
from kappa_operator.kinds import KIND_TABLE
from unit.control.test_version_skew import SCENES

_KAFKA = ("ensure", "has", "uses", "allow_retry", "describe_cluster", "describe_topic", "read_quota")
READS: dict[str, Collection[str]] = {
    "cluster": ("get", "list_objects", "list_pages"), "kafka": _KAFKA, "drivers": ("fetch_progress",),
    "webhooks": ("get",), "histories": ("recall",),
}  # fmt: skip


class ReadOnly:
    """Passes reads on, and fails for everything else."""

    def __init__(self, seam: object, reads: Collection[str]) -> None:
        self._seam = seam
        self._reads = reads

    def __getattr__(self, name: str) -> Any:
        assert name in self._reads, f"observation calls {name} of {type(self._seam).__name__}"
        return getattr(self._seam, name)


def restrict(context: OperatorContext) -> OperatorContext:
    seams = {name: ReadOnly(getattr(context, name), reads) for name, reads in READS.items()}
    return replace(context, **cast(Any, seams))


@pytest.mark.parametrize("hours", [0, 1])
@pytest.mark.parametrize("kind", SCENES)
async def test_observation_writes_nothing(kind: str, hours: int) -> None:
    operator, key = await SCENES[kind]()
    operator.clock.advance(3600 * hours)
    assert await KIND_TABLE[kind].observe(restrict(operator.context), key, ()) is not None
