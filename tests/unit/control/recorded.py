"""Traces that were recorded from a real broker and a real group by `integration/lag_recorder.py`, as the traces of the model are."""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from fakes.context import START
from kappa_operator.lag.model import PartitionLog, Sample
from unit.control.lag_traces import Commit

FOLDER = Path(__file__).parent / "traces"


@dataclass
class Recorded:
    """The looks of a sampler and the commits of a group; times are seconds since the start."""

    scene: str
    looks: list[tuple[float, Sample]] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)


def list_scenes() -> list[str]:
    """Return the names of all that were recorded."""
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


def read_recorded(scene: str) -> Recorded:
    """Return what was recorded of a scene."""
    lines = (FOLDER / f"{scene}.jsonl").read_text().splitlines()
    recorded = Recorded(json.loads(lines[0])["scene"])
    for line in lines[1:]:
        kind, at, *values = json.loads(line)
        if kind == "commit":
            recorded.commits.append(Commit(at, *values))
        else:
            start, end, stable, *told = values
            sample = Sample(START + timedelta(seconds=at), PartitionLog(start, end, stable), *told)
            recorded.looks.append((at, sample))
    return recorded
