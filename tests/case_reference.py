"""The reference page of test cases, from their model.

python -m case_reference write FILE    writes the page
python -m case_reference check FILE    exits 1 where the page differs
"""

import sys
from pathlib import Path
from typing import Any

from kappa_crds.reference import build_fields
from kappa_crds.schema import build_structural_schema
from kappa_pipelines.laptop.cases import KIND, CaseSpec

INTRODUCTION = f"""# Test cases

<!-- Generated from the model of test cases by `make generate`; do not edit. -->

`kappa test` runs documents of kind `{KIND}`. They are not resources of a cluster. See
[Write and test a pipeline on a laptop](../how-to/laptop.md).
"""


def build_page() -> str:
    """Return the page."""
    schema: Any = build_structural_schema(CaseSpec)
    schema["properties"]["input"]["items"]["properties"]["value"]["type"] = "any"
    return f"{INTRODUCTION}\n{build_fields(schema, 'spec')}\n"


def main(command: str, file: Path) -> int:
    """Write the page, or check it."""
    page = build_page()
    if command == "write":
        file.write_text(page)
    elif not file.exists() or file.read_text() != page:
        print(f"{file}: differs from the model; run make generate")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
