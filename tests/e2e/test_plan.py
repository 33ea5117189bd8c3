"""`kappa plan`, and the API server at a dry run, say what a change would mean, and nothing is done."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.counting import Counting
from e2e.lanes import Lane
from e2e.place import Place
from e2e.reads import read_resource
from kappa_crds import API_VERSION
from kappa_crds.kinds import KINDS
from lab import api
from lab.paths import BIN, KUBECONFIG
from platform_switch import stopped_operator

pytestmark = pytest.mark.timeout(900)

_RBAC = "rbac.authorization.k8s.io/v1"
_KINDS = [
    *((API_VERSION, kind.name) for kind in KINDS),
    *(
        ("v1", kind)
        for kind in ("Pod", "ConfigMap", "Service", "ServiceAccount", "Secret", "PersistentVolumeClaim")
    ),
    *((_RBAC, kind) for kind in ("Role", "RoleBinding")),
]


@pytest.fixture(scope="module")
def frozen(running_count: Counting, lane: Lane) -> Iterator[Place]:
    """The counting pipeline with no operator around, so that whatever changes was changed by the plan."""
    with lane.alone(), stopped_operator():
        yield running_count.place


def read_versions(place: Place) -> dict[str, str]:
    """Return what identifies each object as it is now; of pods the uid, for the kubelet writes their status."""
    return {
        f"{kind}/{item['metadata']['name']}": item["metadata"]["uid" if kind == "Pod" else "resourceVersion"]
        for version, kind in _KINDS
        for item in api.list_objects(place.name, version, kind)
    }


def plan(place: Place, folder: Path, manifest: str) -> str:
    """Run the command on a file as a user does; nothing in the namespace may be another than before."""
    file = folder / "pipeline.yaml"
    file.write_text(manifest)
    before = read_versions(place)
    # The verdict takes a JVM, and is tested with one in tests/laptop/test_verdict.py.
    told = place.kappa("plan", "--no-verdict", "-f", str(file))
    assert read_versions(place) == before
    return told


def build_pipeline(place: Place, name: str, **spec: object) -> str:
    """Return the counting pipeline under a name, with parts of its spec exchanged."""
    found = read_resource(place.name, "pipelines", "counts")
    return json.dumps(
        {
            "apiVersion": found["apiVersion"],
            "kind": "Pipeline",
            "metadata": {"name": name},
            "spec": {**found["spec"], **spec},
        }
    )


def dry_run(place: Place, manifest: str) -> str:
    """Apply a manifest as a dry run at the API server, and return what kubectl warns of."""
    flags = [f"--kubeconfig={KUBECONFIG}", "-n", place.name, "apply", "--dry-run=server", "-f", "-"]
    command = [str(BIN / "kubectl"), *flags]
    done = subprocess.run(command, input=manifest, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_server_dry_run_reports_the_effects_of_a_change(running_count: Counting) -> None:
    """Stands first: it needs the operator, which is stopped for the others."""
    place = running_count.place
    view = {"name": "counted", "allowUnboundedState": True}
    sql = "SELECT k, count(*) AS n, max(seq) AS last, sum(seq) AS total, min(seq) AS first FROM events GROUP BY k"
    before = place.get("Pipeline", "counts")
    said = dry_run(place, build_pipeline(place, "counts", views=[{**view, "sql": sql}]))
    assert "state: min(seq)" in said
    assert "spec.upgrade.mode is LastState: the change would be refused" in said
    assert "the change is warm" in said
    assert 'Savepoint "lost" not found' in dry_run(
        place, build_pipeline(place, "counts", restore={"savepoint": "lost"})
    )
    after = place.get("Pipeline", "counts")
    assert (after.spec, after.metadata.generation) == (before.spec, before.metadata.generation)


def test_a_new_pipeline_would_be_made_with_all_that_belongs_to_it(frozen: Place, tmp_path: Path) -> None:
    said = plan(frozen, tmp_path, build_pipeline(frozen, "fresh"))
    assert f"Pipeline {frozen.name}/fresh" in said
    for kind in ("ServiceAccount", "Role", "RoleBinding", "Service", "NetworkPolicy", "Secret", "ConfigMap"):
        assert f"{kind} {frozen.name}/fresh-" in said
    assert f"create Pod {frozen.name}/fresh-driver-1" in said
    assert "state partitions: " in said


def test_a_changed_pipeline_would_have_a_dry_run_first(frozen: Place, tmp_path: Path) -> None:
    said = plan(frozen, tmp_path, build_pipeline(frozen, "counts", trigger={"maxRecords": 77}))
    assert "UpgradeDryRun" in said
    assert "standby driver of the new revision" in said


def test_an_unchanged_pipeline_has_nothing_to_do(frozen: Place, tmp_path: Path) -> None:
    said = plan(frozen, tmp_path, build_pipeline(frozen, "counts"))
    assert not said.startswith("#")
    assert "(nothing to do)" in said


def test_what_the_api_server_would_refuse_is_refused(frozen: Place, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="sinks"):
        plan(frozen, tmp_path, build_pipeline(frozen, "fresh", sinks=[]))
