"""What the operator takes away from a status: the API server accepts it for each field of each kind.

It makes null of a granular object whose last field is taken away, and refuses the status for that null.
"""

from typing import Any

import pytest

from integration.bench import Bench
from integration.manifests import read_smallest
from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from kappa_crds.resource import Kind
from kappa_crds.schema import JsonSchema, build_root_schema

_VALUES = {"integer": 1, "number": 1.5, "boolean": True}


def fill(schema: JsonSchema, *, least: bool) -> Any:
    """Return a value with each field and one item of each list and map; with `least` nothing but defaults, required and empty fields."""
    kind = schema.get("type")
    if least and kind != "object" and "default" in schema:
        return schema["default"]
    if kind == "object":
        required = schema.get("required", ())
        found = {
            name: fill(child, least=least)
            for name, child in schema.get("properties", {}).items()
            if not least or name in required or "default" in child or child.get("type") in ("object", "array")
        }
        extra = schema.get("additionalProperties")
        return found if extra is None or least else {**found, "one": fill(extra, least=False)}
    if kind == "array":
        return [] if least else [fill(schema["items"], least=False)]
    if kind == "string":
        return "2026-01-01T00:00:00Z" if schema.get("format") == "date-time" else "x"
    return _VALUES.get(str(kind), 1)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
async def test_what_a_status_had_can_be_taken_away(bench: Bench, kind: Kind) -> None:
    created = await bench.put(kind.name, "fields", **read_smallest(kind.name)["spec"])
    schema = build_root_schema(kind)["properties"]["status"]
    metadata = {"name": "fields", "namespace": bench.namespace}
    for least in (False, True):
        status = fill(schema, least=least)
        await bench.cluster.apply_status(
            {"apiVersion": API_VERSION, "kind": kind.name, "metadata": metadata, "status": status}
        )
        stored = await bench.read(created)
        assert stored is not None
        assert stored["status"] == status
