"""The table of kinds: how each is observed and decided, and how its resources relate to others.

A kind of `kappa_crds` that is not in the table is an error when this module is imported.
"""

from kappa_crds import kinds
from kappa_crds.cdcsource import CDC_SOURCE, CDC_SOURCE_FINALIZER
from kappa_crds.conversion import convert
from kappa_crds.kafkacluster import KAFKA_CLUSTER
from kappa_crds.lagpolicy import LAG_POLICY
from kappa_crds.lagremediation import LAG_FINALIZER
from kappa_crds.pipeline import PIPELINE, PIPELINE_FINALIZER
from kappa_crds.reasons import Reason
from kappa_crds.reprocessing import REPROCESSING, REPROCESSING_FINALIZER
from kappa_crds.savepoint import SAVEPOINT, SAVEPOINT_FINALIZER
from kappa_crds.statestore import STATE_STORE, STATE_STORE_FINALIZER
from kappa_crds.topic import TOPIC, TOPIC_FINALIZER
from kappa_crds.upgrade import SHADOW_MODES
from kappa_operator.archive.objects import TOPIC_LABEL
from kappa_operator.cdcsource.decide import CDC_SOURCE_STEPS
from kappa_operator.cdcsource.objects import SOURCE_LABEL
from kappa_operator.cdcsource.observe import observe_cdcsource
from kappa_operator.connect.names import CONNECT_LABEL
from kappa_operator.engine.cache import ResourceCache
from kappa_operator.engine.kinds import Body, KindEntry, OwnedPods, Reference, build_table
from kappa_operator.engine.limits import Weight
from kappa_operator.kafkacluster.decide import KAFKA_CLUSTER_STEPS
from kappa_operator.kafkacluster.observe import observe_kafkacluster, release_if_unused
from kappa_operator.lagpolicy.decide import LAG_POLICY_STEPS, is_long
from kappa_operator.lagpolicy.observe import forget_policy, observe_lagpolicy
from kappa_operator.pipeline.decide import PIPELINE_STEPS
from kappa_operator.pipeline.objects import DRIVER_ROLE, PIPELINE_LABEL
from kappa_operator.pipeline.observe import find_held_by_pipeline, forget_pipeline, observe_pipeline
from kappa_operator.reprocessing.decide import REPROCESSING_STEPS
from kappa_operator.reprocessing.observe import (
    find_moving,
    find_reprocessed,
    forget_reprocessing,
    observe_reprocessing,
)
from kappa_operator.savepoint.decide import SAVEPOINT_STEPS
from kappa_operator.savepoint.objects import SAVEPOINT_LABEL
from kappa_operator.savepoint.observe import find_waiting_for_savepoint, observe_savepoint
from kappa_operator.statestore.decide import STATE_STORE_STEPS
from kappa_operator.statestore.objects import STORE_LABEL
from kappa_operator.statestore.observe import observe_statestore
from kappa_operator.topic.configs import get_topic_name
from kappa_operator.topic.decide import TOPIC_STEPS
from kappa_operator.topic.observe import observe_topic


def count_executors(spec: Body) -> int:
    """Return how many executors a Pipeline may have at the same time.

    In mode Shadow two versions run beside each other, and the new one may have more while it replays. A member of a chain has a new version
    in each mode, so its executors count where they are set.
    """
    resources: Body = spec.get("resources") or {}
    upgrade: Body = spec.get("upgrade") or {}
    count = int((resources.get("executors") or {}).get("count") or 0)
    replay = int(((upgrade.get("reprocessing") or {}).get("replay") or {}).get("executors") or 0)
    has_second = upgrade.get("mode") in SHADOW_MODES or replay > 0
    return count + max(count, replay) if count > 0 and has_second else count


KIND_TABLE = build_table(
    (
        KindEntry(
            KAFKA_CLUSTER,
            observe_kafkacluster,
            KAFKA_CLUSTER_STEPS,
            limit="kafkaClusters",
            reference=Reference(
                ("clusterRef",), Reason.CLUSTER_NOT_FOUND, Reason.CLUSTER_NOT_READY, Reason.CLUSTER_AMBIGUOUS
            ),
            pods=OwnedPods(CONNECT_LABEL),
            on_deleted=release_if_unused,
            keeps_parsed=True,
        ),
        KindEntry(
            TOPIC,
            observe_topic,
            TOPIC_STEPS,
            limit="topics",
            finalizer=TOPIC_FINALIZER,
            reference=Reference(
                ("topic", "topics", "deadLetter"), Reason.TOPIC_NOT_READY, Reason.TOPIC_NOT_READY
            ),
            defaults=("clusterRef",),
            find_dependents=ResourceCache.find_rivals,
            pods=OwnedPods(TOPIC_LABEL),
            claim=get_topic_name,
            weights=(Weight("partitions", lambda spec: spec.get("partitions", 1), each=True),),
        ),
        KindEntry(
            STATE_STORE,
            observe_statestore,
            STATE_STORE_STEPS,
            limit="stateStores",
            finalizer=STATE_STORE_FINALIZER,
            reference=Reference(
                ("stateStoreRef", "storeRef", "targetStoreRef"),
                Reason.STATE_STORE_NOT_FOUND,
                Reason.STATE_STORE_NOT_READY,
                Reason.STATE_STORE_AMBIGUOUS,
            ),
            pods=OwnedPods(STORE_LABEL),
            keeps_parsed=True,
        ),
        KindEntry(
            PIPELINE,
            observe_pipeline,
            PIPELINE_STEPS,
            limit="pipelines",
            finalizer=PIPELINE_FINALIZER,
            reference=Reference(("pipelineRef",), Reason.PIPELINE_NOT_FOUND, Reason.PIPELINE_NOT_FOUND),
            defaults=("clusterRef", "stateStoreRef"),
            status_names=("upgrade", "restoration"),
            find_dependents=find_held_by_pipeline,
            pods=OwnedPods(PIPELINE_LABEL, DRIVER_ROLE),
            on_deleted=forget_pipeline,
            weights=(Weight("executors", count_executors),),
            excerpt=lambda body: (convert("Pipeline", body).get("status") or {}).get("upgrade") or {},
            keeps_parsed=True,
        ),
        KindEntry(
            SAVEPOINT,
            observe_savepoint,
            SAVEPOINT_STEPS,
            limit="savepoints",
            finalizer=SAVEPOINT_FINALIZER,
            reference=Reference(("savepoint",), Reason.SAVEPOINT_NOT_READY, Reason.SAVEPOINT_NOT_READY),
            find_dependents=find_waiting_for_savepoint,
            pods=OwnedPods(SAVEPOINT_LABEL),
        ),
        KindEntry(
            LAG_POLICY,
            observe_lagpolicy,
            LAG_POLICY_STEPS,
            limit="lagPolicies",
            finalizer=LAG_FINALIZER,
            on_deleted=forget_policy,
            is_long=is_long,
        ),
        KindEntry(
            CDC_SOURCE,
            observe_cdcsource,
            CDC_SOURCE_STEPS,
            limit="cdcSources",
            finalizer=CDC_SOURCE_FINALIZER,
            defaults=("clusterRef",),
            pods=OwnedPods(SOURCE_LABEL),
        ),
        KindEntry(
            REPROCESSING,
            observe_reprocessing,
            REPROCESSING_STEPS,
            limit="reprocessings",
            status_names=("members",),
            finalizer=REPROCESSING_FINALIZER,
            find_dependents=find_reprocessed,
            find_followers=find_moving,
            on_deleted=forget_reprocessing,
        ),
    ),
    kinds.KINDS,
)
