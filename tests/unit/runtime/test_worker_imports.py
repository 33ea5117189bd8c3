"""Spark starts Python workers all the time: what they load is paid for by each of them."""

import subprocess
import sys

import pytest

MODULES = ["key_groups", "python", "search.step", "table_pairs", "versions"]


@pytest.mark.parametrize("name", MODULES)
def test_a_worker_loads_no_models(name: str) -> None:
    program = f"import sys, kappa_pipelines.transforms.{name}; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]
