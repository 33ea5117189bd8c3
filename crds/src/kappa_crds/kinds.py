"""The registry of kinds."""

from kappa_crds.cdcsource import CDC_SOURCE
from kappa_crds.kafkacluster import KAFKA_CLUSTER
from kappa_crds.lagpolicy import LAG_POLICY
from kappa_crds.pipeline import PIPELINE
from kappa_crds.reprocessing import REPROCESSING
from kappa_crds.resource import Kind
from kappa_crds.savepoint import SAVEPOINT
from kappa_crds.statestore import STATE_STORE
from kappa_crds.topic import TOPIC

KINDS: tuple[Kind, ...] = (
    KAFKA_CLUSTER, TOPIC, STATE_STORE, PIPELINE, SAVEPOINT, LAG_POLICY, CDC_SOURCE, REPROCESSING,
)  # fmt: skip


def find_kind(name: str) -> Kind:
    """Return the kind of that name; raise KeyError with the known names if there is none."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise KeyError(f"kind {name!r} is unknown; the kinds are {', '.join(kind.name for kind in KINDS)}")
