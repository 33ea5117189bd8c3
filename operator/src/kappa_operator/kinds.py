"""Which functions observe and decide each kind."""

from collections.abc import Mapping
from typing import Any

from kappa_operator.engine.reconcile import Logic
from kappa_operator.kafkacluster.decide import decide_kafkacluster
from kappa_operator.kafkacluster.observe import observe_kafkacluster
from kappa_operator.lagpolicy.decide import decide_lagpolicy, is_long
from kappa_operator.lagpolicy.observe import observe_lagpolicy
from kappa_operator.pipeline.observe_schedule import observe_kept_pipeline
from kappa_operator.pipeline.schedule import decide_kept_pipeline
from kappa_operator.savepoint.decide import decide_savepoint
from kappa_operator.savepoint.observe import observe_savepoint
from kappa_operator.statestore.collection import decide_collected_store
from kappa_operator.statestore.observe_collection import observe_collected_store
from kappa_operator.topic.decide import decide_topic
from kappa_operator.topic.observe import observe_topic

LOGICS: Mapping[str, Logic[Any]] = {
    "KafkaCluster": Logic(observe_kafkacluster, decide_kafkacluster),
    "Topic": Logic(observe_topic, decide_topic),
    "StateStore": Logic(observe_collected_store, decide_collected_store),
    "Pipeline": Logic(observe_kept_pipeline, decide_kept_pipeline),
    "Savepoint": Logic(observe_savepoint, decide_savepoint),
    "LagPolicy": Logic(observe_lagpolicy, decide_lagpolicy, is_long),
}
