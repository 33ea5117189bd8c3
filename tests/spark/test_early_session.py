"""The session that a driver's JVM opens while the driver loads its modules, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from spark.revisions import build_revision, source

SPEC = {"sources": [source()], "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}]}
PROGRAM = """
import json, os, sys
from pathlib import Path
from kappa_pipelines.driver.jvm import start_early
from kappa_pipelines.driver.session import create_session, launch_jvm
from kappa_pipelines.revision.load import load_revision
file, further = Path(sys.argv[1]), json.loads(sys.argv[2])
early = start_early(file)
revision = load_revision(file)
launch_jvm(revision, early)
spark = create_session(revision, further=further)
spark._jvm.kappa.start.FirstUse.load()
taken = spark._jvm.kappa.start.Driver.take()
print(taken is not None and taken.equals(spark._jsparkSession), spark.sparkContext._gateway.proc is early._process,
      spark.range(3).count(), *(spark.sparkContext._jsc.sc().conf().get(key) for key in further), flush=True)
os._exit(0)
"""
CAPACITY = "spark.kafka.consumer.cache.capacity"


@pytest.mark.parametrize(
    ("further", "is_taken"),
    [(f'{{"{CAPACITY}": "99"}}', True), ('{"spark.sql.shuffle.partitions": "99"}', False)],
    ids=["a setting of the first task", "another setting"],
)
def test_the_driver_takes_it_or_opens_one_with_its_settings(
    tmp_path: Path, checkpoint: Path, further: str, is_taken: bool
) -> None:
    file = tmp_path / "revision.json"
    file.write_text(build_revision(SPEC, checkpoint, "127.0.0.1:1").to_json())
    command = [sys.executable, "-c", PROGRAM, str(file), further]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    assert done.stdout.split()[-4:] == [str(is_taken), "True", "3", "99"]
