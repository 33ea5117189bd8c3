"""Objects that an API server stored with the CRDs of release 0.1 lose nothing with the present CRDs, before and after their conversion."""

from collections.abc import Iterator
from typing import Any

import pytest

from integration.apiserver import ApiServer
from integration.manifests import HERE, REPOSITORY, Manifest
from kappa_crds.conversion import build_spec_patch, convert
from kappa_crds.kinds import KINDS, find_kind
from kappa_crds.manifests import TEST_KIND, read_documents

OLD = REPOSITORY / "tests" / "unit" / "crds"
MANIFESTS = [
    each
    for each in read_documents((OLD / "release_0_1_manifests.yaml").read_text())
    if each["kind"] != TEST_KIND
]
LATER = {"CDCSource", "Reprocessing"}
"""Kinds that release 0.1 did not have."""


@pytest.fixture(scope="module")
def stored(server: ApiServer) -> Iterator[dict[tuple[str, str], Manifest]]:
    """What was stored with the old CRDs, as it was read then. The present CRDs are there now."""
    server.install(HERE / "release_0_1_crds")
    read: dict[tuple[str, str], Manifest] = {}
    try:
        for number, manifest in enumerate(MANIFESTS):
            name = f"old-{number}"
            server.create({**manifest, "metadata": {"name": name}})
            if manifest["kind"] == "Pipeline":
                status = {"generation": 3, "revision": "r-1", "stragglers": 5, "driver": "d"}
                server.patch("Pipeline", name, {"status": status}, part="/status")
            read[manifest["kind"], name] = server.read(manifest["kind"], name)
    finally:
        server.install(REPOSITORY / "crds" / "generated")
    yield read


def test_nothing_of_a_stored_object_is_lost_with_the_present_crds(
    server: ApiServer, stored: dict[tuple[str, str], Manifest]
) -> None:
    for (kind, name), before in stored.items():
        now = server.read(kind, name)
        assert contains(now["spec"], before["spec"]), (kind, name)
        assert contains(now.get("status", {}), before.get("status", {})), (kind, name)
        assert find_kind(kind).parse(now).spec == find_kind(kind).parse(before).spec


def test_each_stored_object_is_converted_by_one_patch_and_keeps_its_status(
    server: ApiServer, stored: dict[tuple[str, str], Manifest]
) -> None:
    for (kind, name), before in stored.items():
        body = server.read(kind, name)
        server.patch(kind, name, build_spec_patch(body))
        after = server.read(kind, name)
        assert contains(after["spec"], convert(kind, before)["spec"]), (kind, name)
        assert convert(kind, after)["spec"] == after["spec"], "no old name is left"
        assert after.get("status") == body.get("status")


def test_a_new_manifest_with_a_renamed_field_is_refused_with_its_new_name(server: ApiServer) -> None:
    by_kind: dict[str, Manifest] = {each["kind"]: each for each in reversed(MANIFESTS)}
    for kind in ("Pipeline", "KafkaCluster"):
        manifest = next(
            each for each in MANIFESTS if each["kind"] == kind and convert(kind, each) is not each
        )
        refusal = server.refuse_create({**manifest, "metadata": {"name": "new"}})
        assert "was renamed to" in refusal and "kappa convert" in refusal, refusal
    assert by_kind.keys() == {kind.name for kind in KINDS} - LATER


def contains(value: Any, part: Any) -> bool:
    """Return whether all of a part is in a value; defaults may have come."""
    if isinstance(part, dict) and isinstance(value, dict):
        return all(key in value and contains(value[key], child) for key, child in part.items())
    if isinstance(part, list) and isinstance(value, list) and len(part) == len(value):
        return all(contains(*pair) for pair in zip(value, part, strict=True))
    return bool(value == part)
