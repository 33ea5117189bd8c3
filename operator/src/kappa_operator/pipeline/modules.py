"""Python modules from a ConfigMap. They travel in the revision, which is immutable: code never changes under a running driver."""

import keyword
import re
import sys
from collections.abc import Mapping

from kappa_crds.reasons import Reason
from kappa_operator.errors import ReferenceProblem

MODULES_LIMIT = 512 * 1024
"""Bytes of all modules. The revision that has them is itself a ConfigMap, which Kubernetes limits to 1 MiB, and quotes them."""
_ENDING = ".py"
_TAKEN = sys.stdlib_module_names | {"kappa_crds", "kappa_pipelines", "pandas", "py4j", "pyarrow", "pyspark"}


def select_modules(config_map: str, data: Mapping[str, str]) -> dict[str, str]:
    """Return the modules of a ConfigMap's text keys, by file name; raise ReferenceProblem that names the key."""
    modules = {key: text for key, text in sorted(data.items()) if key.endswith(_ENDING)}
    if not modules:
        raise _refuse(config_map, "has no key that ends in .py")
    for key in modules:
        name = key.removesuffix(_ENDING)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
            raise _refuse(
                config_map, f"has the key {key}, which Python cannot import; use letters, digits and '_' only"
            )
        if name in _TAKEN:
            raise _refuse(config_map, f"has the key {key}, which would hide a module of Python or Spark")
    size = sum(len(text.encode()) for text in modules.values())
    if size > MODULES_LIMIT:
        kib = -(-size // 1024)
        raise _refuse(config_map, f"has {kib} KiB of modules, 512 at most; build them into spec.image")
    return modules


def _refuse(config_map: str, what: str) -> ReferenceProblem:
    return ReferenceProblem(f"ConfigMap {config_map} {what}", reason=Reason.PYTHON_MODULES_INVALID)
