"""Every example as a stream against its own batch computation, over shuffled input, with a crash in the middle."""

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from lab.paths import REPOSITORY
from laptop.equivalence import Story, check
from laptop.example_data import read_rows

EXAMPLES = sorted(path.parent for path in (REPOSITORY / "pipelines" / "examples").glob("*/batch.sql"))


def read_story(folder: Path) -> Story:
    documents = yaml.safe_load_all((folder / "pipeline.yaml").read_text())
    manifest = next(document for document in documents if document["kind"] == "Pipeline")
    manifest["spec"]["sinks"] = manifest["spec"]["sinks"][:1]  # the one that the batch answers
    return Story(manifest, (folder / "batch.sql").read_text())


@pytest.mark.parametrize("batches", [2, *(pytest.param(n, marks=pytest.mark.chaos) for n in (1, 5, 17))])
@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_an_example_equals_its_batch(
    folder: Path, batches: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    check(read_story(folder), read_rows(), tmp_path, batches=batches, seed=batches)


def test_there_are_enough_examples() -> None:
    assert len(EXAMPLES) >= 10
