"""The reference page of test cases, from their model."""

from typing import Any

from generate.reference import build_fields
from kappa_crds import TEST_SUFFIX
from kappa_crds.manifests import TEST_KIND
from kappa_crds.schema import build_structural_schema
from kappa_pipelines.laptop.cases import CaseSpec

INTRODUCTION = f"""# Test cases

<!-- Generated from the model of test cases by `make generate`; do not edit. -->

`kappa test` runs documents of kind `{TEST_KIND}`, in files that end with `{TEST_SUFFIX}`. They are not resources
of a cluster. See [Write and test a pipeline on a laptop](../how-to/laptop.md).
"""


def build_page() -> str:
    """Return the page."""
    schema: Any = build_structural_schema(CaseSpec)
    schema["properties"]["input"]["items"]["properties"]["value"]["type"] = "any"
    return f"{INTRODUCTION}\n{build_fields(schema, 'spec')}\n"
