"""Keeps PySpark's tools for tests out of drivers, with pandas, pyarrow and numpy, which they load.

For each literal, and each argument of a request to the JVM, PySpark 4.2 asks these tools whether numpy is installed, and loads both to know
whether the value is one of numpy. No value is one before numpy is loaded, so what is asked is whether it is.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_NAME = "pyspark.testing.utils"


class _Absent(ModuleType):
    """In place of the tools: it knows whether numpy is loaded. All else comes from the tools, which are loaded then."""

    @property
    def have_numpy(self) -> bool:
        """Return whether a value can be one of numpy."""
        return "numpy" in sys.modules

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of the machinery of imports
            raise AttributeError(name)
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        return getattr(importlib.import_module(_NAME), name)


def leave_out_test_tools() -> None:
    """Have PySpark load neither its tools for tests nor numpy, unless that was done before."""
    sys.modules.setdefault(_NAME, _Absent(_NAME))
