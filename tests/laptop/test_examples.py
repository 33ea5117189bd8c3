"""Every example as a stream against its own batch computation, over shuffled input, with a crash in the middle."""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lab.paths import REPOSITORY
from laptop.equivalence import Story, check
from laptop.example_data import read_rows

EXAMPLES = sorted(path.parent for path in (REPOSITORY / "pipelines" / "examples").glob("*/batch.sql"))
QUICK = {"cancelled", "rotations"}
"""Those that `make test` runs. Corrections, patterns, event sourcing, search and sketches have tests of their own beside this one, and `test_validate`
compiles all examples; all are run, and in other sizes, by `make chaos`."""
CASES = [
    pytest.param(
        folder,
        batches,
        id=f"{folder.name}-{batches}",
        marks=() if batches == 2 and folder.name in QUICK else pytest.mark.chaos,
    )
    for folder in EXAMPLES
    for batches in (1, 2, 5, 17)
]


def read_story(folder: Path) -> Story:
    documents = yaml.load_all((folder / "pipeline.yaml").read_text(), yaml.CSafeLoader)
    manifest = next(document for document in documents if document["kind"] == "Pipeline")
    manifest["spec"]["sinks"] = manifest["spec"]["sinks"][:1]  # the one that the batch answers
    return Story(manifest, (folder / "batch.sql").read_text())


@pytest.mark.parametrize(("folder", "batches"), CASES)
def test_an_example_equals_its_batch(
    folder: Path, batches: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    check(read_story(folder), read_rows(), tmp_path, batches=batches, seed=batches)


def test_there_are_enough_examples() -> None:
    assert len(EXAMPLES) >= 10
