"""Which functions observe and decide each kind."""

from collections.abc import Mapping
from typing import Any

from kappa_operator.observe.collection import observe_collected_store
from kappa_operator.observe.kafkacluster import observe_kafkacluster
from kappa_operator.observe.lagpolicy import observe_lagpolicy
from kappa_operator.observe.savepoint import observe_savepoint
from kappa_operator.observe.savepoint_policy import observe_kept_pipeline
from kappa_operator.observe.topic import observe_topic
from kappa_operator.plan.collection import decide_collected_store
from kappa_operator.plan.kafkacluster import decide_kafkacluster
from kappa_operator.plan.lagpolicy import decide_lagpolicy, is_long
from kappa_operator.plan.savepoint import decide_savepoint
from kappa_operator.plan.savepoint_policy import decide_kept_pipeline
from kappa_operator.plan.topic import decide_topic
from kappa_operator.reconcile import Logic

LOGICS: Mapping[str, Logic[Any]] = {
    "KafkaCluster": Logic(observe_kafkacluster, decide_kafkacluster),
    "Topic": Logic(observe_topic, decide_topic),
    "StateStore": Logic(observe_collected_store, decide_collected_store),
    "Pipeline": Logic(observe_kept_pipeline, decide_kept_pipeline),
    "Savepoint": Logic(observe_savepoint, decide_savepoint),
    "LagPolicy": Logic(observe_lagpolicy, decide_lagpolicy, is_long),
}
