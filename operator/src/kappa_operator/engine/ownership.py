"""Which objects are the operator's own. It neither changes, adopts nor uses what another client made, even under the expected name.

An object of a resource has that resource as its controller, by uid. A PVC outlives its StateStore, so it has no controller and is
known by its labels. A write names the uid of the object that was checked: one that was replaced meanwhile is a Conflict.
"""

from kappa_crds import API_VERSION
from kappa_operator.engine.actions import Manifest
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import NameTaken

_PREFIX = "kappa-platform.io/"


def find_controller(body: Manifest) -> Manifest:
    """Return the owner reference of an object's controller, empty without one."""
    owners = body["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), {})


def is_controlled(body: Manifest, kind: str, name: str) -> bool:
    """Return whether an object has a resource of that kind and name as its controller, whatever its uid."""
    owner = find_controller(body)
    return (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) == (API_VERSION, kind, name)


def has_our_labels(body: Manifest, wanted: Manifest) -> bool:
    """Return whether an object has all labels of the platform that are wanted."""
    ours = {name: value for name, value in wanted.items() if name.startswith(_PREFIX)}
    return ours.items() <= (body["metadata"].get("labels") or {}).items()


def require_own(body: Manifest, manifest: Manifest) -> None:
    """Raise NameTaken where the object of that name is not the one that the manifest describes."""
    wanted, found = find_controller(manifest), find_controller(body)
    labels = {} if wanted else manifest["metadata"].get("labels") or {}
    if found.get("uid") == wanted.get("uid") and has_our_labels(body, labels):
        return
    owner = f"{found['kind']} {found['name']}" if found else "no Kappa resource"
    ref = ObjectRef.of(manifest)
    raise NameTaken(
        f"{ref.kind} {ref.name} exists in namespace {ref.namespace} and belongs to {owner}; delete or rename it,"
        " or give this resource another name"
    )
