"""What a driver loads before its first batch: modules of rare work cost each start processor time."""

import subprocess
import sys


def test_a_start_loads_no_library_of_columns() -> None:
    program = (
        "import sys, kappa_pipelines.__main__, kappa_pipelines.driver.process;"
        " print(*sorted({'numpy', 'pandas', 'pyarrow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
