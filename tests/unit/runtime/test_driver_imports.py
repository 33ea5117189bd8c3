"""What a driver loads before its first batch: modules of rare work cost each start processor time."""

import subprocess
import sys


def run_python(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_jvm_starts_before_pyspark_and_the_models_are_loaded() -> None:
    program = (
        "import sys, kappa_pipelines.__main__;"
        " print(*sorted({'pyspark', 'pydantic', 'structlog', 'kappa_crds'} & set(sys.modules)))"
    )
    assert run_python(program) == []


def test_pyspark_asks_for_numpy_and_does_not_load_it() -> None:
    program = (
        "import sys; from pyspark.sql import types;"
        " from kappa_pipelines.driver.unused_tools import leave_out_test_tools; leave_out_test_tools();"
        " asked = [types.NumpyScalarConverter(), types.NumpyArrayConverter()];"
        " print(*(each.can_convert('text') for each in asked), *({'numpy', 'pandas', 'unittest'} & set(sys.modules)));"
        " import numpy;"
        " print(asked[0].can_convert(numpy.int64(1)), asked[1].can_convert(numpy.array([1])), asked[0].can_convert(1))"
    )
    assert run_python(program) == ["False", "False", "True", "True", "False"]


def test_who_wants_the_tools_for_tests_gets_them() -> None:
    program = (
        "from kappa_pipelines.driver.unused_tools import leave_out_test_tools; leave_out_test_tools();"
        " from pyspark.testing.utils import assertDataFrameEqual; import pyspark.testing, pyspark.testing.utils as own;"
        " print(pyspark.testing.assertDataFrameEqual is assertDataFrameEqual, own.have_numpy, type(own).__name__)"
    )
    assert run_python(program) == ["True", "True", "module"]


def test_a_start_loads_no_library_of_columns() -> None:
    program = (
        "import sys, kappa_pipelines.driver.main, kappa_pipelines.driver.process;"
        " print(*sorted({'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    assert run_python(program) == []
