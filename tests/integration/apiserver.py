"""The real API server as a test sees it: objects go in, or a refusal comes out."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import kubernetes

from integration.manifests import Manifest
from kappa_crds import GROUP, VERSION
from kappa_crds.kinds import KINDS, find_kind
from lab.api import request
from lab.paths import BIN

_SETTLE = 2.0
_PATIENCE = 60.0


class ApiServer:
    """One namespace of a real API server."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        client = kubernetes.config.new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]
        self._core = kubernetes.client.CoreV1Api(client)
        self._custom = kubernetes.client.CustomObjectsApi(client)

    @contextmanager
    def own_namespace(self) -> Iterator[None]:
        """Have the namespace for the time of a test. An operator that runs in the cluster gets no pods in it."""
        metadata = kubernetes.client.V1ObjectMeta(name=self.namespace)
        self._core.create_namespace(kubernetes.client.V1Namespace(metadata=metadata))
        nothing = kubernetes.client.V1ResourceQuotaSpec(hard={"pods": "0", "persistentvolumeclaims": "0"})
        quota = kubernetes.client.V1ResourceQuota(
            metadata=kubernetes.client.V1ObjectMeta(name="nothing"), spec=nothing
        )
        self._core.create_namespaced_resource_quota(self.namespace, quota)
        try:
            yield
        finally:
            self._core.delete_namespace(self.namespace)

    def install(self, folder: Path) -> None:
        """Apply the CRDs of a folder and wait until the API server serves them."""
        before = self._read_generations()
        flags = ["--server-side", "--force-conflicts", "--field-manager=kappa-tests"]
        self.kubectl("apply", *flags, f"--filename={folder}")
        names = [f"crd/{kind.plural}.{GROUP}" for kind in KINDS]
        self.kubectl("wait", "--for=condition=Established", "--timeout=30s", *names)
        if self._read_generations() != before:
            time.sleep(_SETTLE)  # nothing tells when the handlers have taken up a changed schema
        for kind in KINDS:
            self._await_served(kind.plural)

    def create(self, body: Manifest, *, dry_run: bool = False) -> Manifest:
        """Create an object, unknown fields refused, and return it with its defaults."""
        return cast(
            Manifest,
            self._custom.create_namespaced_custom_object(
                *self._path(body["kind"]),
                body,
                dry_run="All" if dry_run else None,
                field_validation="Strict",
            ),
        )

    def try_replace(self, body: Manifest) -> None:
        """Replace an object as a dry run, unknown fields refused."""
        name = body["metadata"]["name"]
        version = self.read(body["kind"], name)["metadata"]["resourceVersion"]
        wanted = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
        self._custom.replace_namespaced_custom_object(
            *self._path(body["kind"]), name, wanted, dry_run="All", field_validation="Strict"
        )

    def patch(self, kind: str, name: str, change: Manifest, part: str = "") -> None:
        """Merge a change into an object or its subresource, as `kubectl patch --type=merge` does."""
        group, version, namespace, plural = self._path(kind)
        path = f"/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}{part}"
        request("PATCH", path, change, content_type="application/merge-patch+json")

    def refuse_create(self, body: Manifest) -> str:
        """Return what the API server says against creating this; empty where it would take it."""
        return _catch(lambda: self.create(body, dry_run=True))

    def refuse_change(self, body: Manifest) -> str:
        """Return what the API server says against changing the object to this; empty where it would take it."""
        return _catch(lambda: self.try_replace(body))

    def read(self, kind: str, name: str) -> Manifest:
        """Return an object."""
        return cast(Manifest, self._custom.get_namespaced_custom_object(*self._path(kind), name))

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl in the namespace and return what it printed."""
        program = shutil.which("kubectl") or str(BIN / "kubectl")
        command = [program, f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}", *arguments]
        done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def _read_generations(self) -> dict[str, Any]:
        listed = json.loads(self.kubectl("get", "crd", "--output=json"))["items"]
        return {crd["metadata"]["name"]: crd["metadata"]["generation"] for crd in listed}

    def _await_served(self, plural: str) -> None:
        """Wait for the handler of a kind: a CRD that is established may still be answered with 404."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._custom.list_namespaced_custom_object(GROUP, VERSION, self.namespace, plural, limit=1)
            except kubernetes.client.ApiException as error:
                assert error.status == 404, error
                assert time.monotonic() < deadline, f"{plural} are not served: {error}"
                time.sleep(0.2)
            else:
                return

    def _path(self, kind: str) -> tuple[str, str, str, str]:
        return GROUP, VERSION, self.namespace, find_kind(kind).plural


def _catch(act: Callable[[], object]) -> str:
    try:
        act()
    except kubernetes.client.ApiException as error:
        return str(json.loads(error.body or "{}")["message"])
    return ""
