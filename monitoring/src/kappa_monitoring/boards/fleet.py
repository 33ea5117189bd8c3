"""All pipelines and the operator."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_NS = 'namespace=~"$namespace"'

FLEET = Board(
    uid="kappa-fleet",
    title="Kappa / Fleet",
    description="All pipelines, and the health of the operator.",
    variables=(Variable("namespace", "kappa_pipeline_info", "namespace", many=True),),
    rows=(
        Row(
            "Overview",
            (
                Panel("Pipelines by state", "How many pipelines are in each state.", (Query(f"count by (state) (max by (namespace, pipeline, state) (kappa_pipeline_info{{{_NS}}}))", "{{state}}"),), kind="value"),
                Panel("Not ready", "Pipelines that are neither Ready nor suspended.", (Query(f"(count(max by (namespace, pipeline) (kappa_pipeline_ready{{{_NS}}}) == 0 unless on (namespace, pipeline) kappa_pipeline_suspended == 1) or vector(0))", "not ready"),), kind="value"),
                Panel("Kafka clusters ready", "1 while a KafkaCluster is Ready.", (Query(f"max by (namespace, kafkacluster) (kappa_kafkacluster_ready{{{_NS}}})", "{{namespace}}/{{kafkacluster}}"),), kind="value"),
                Panel("State stores ready", "1 while a StateStore is Ready.", (Query(f"max by (namespace, statestore) (kappa_statestore_ready{{{_NS}}})", "{{namespace}}/{{statestore}}"),), kind="value"),
                Panel("Brokers and topics", "Live brokers, and topics visible to the user, at the last check of each KafkaCluster.", (Query(f"max by (namespace, kafkacluster) (kappa_kafkacluster_brokers{{{_NS}}})", "{{namespace}}/{{kafkacluster}} brokers"), Query(f"max by (namespace, kafkacluster) (kappa_kafkacluster_topics{{{_NS}}})", "{{namespace}}/{{kafkacluster}} topics")), kind="value"),
            ),
        ),
        Row(
            "Throughput and lag",
            (
                Panel("Records read", "Records that each pipeline reads per second, over all sinks.", (Query(f"sum by (namespace, pipeline) (namespace_pipeline_sink:kappa_pipeline_input_rows:rate{{{_NS}}})", "{{namespace}}/{{pipeline}}"),), unit="cps"),
                Panel("Records written", "Records that each pipeline writes per second, over all sinks.", (Query(f"sum by (namespace, pipeline) (namespace_pipeline_sink:kappa_pipeline_written_rows:rate{{{_NS}}})", "{{namespace}}/{{pipeline}}"),), unit="cps"),
                Panel("Lag in records", "Unprocessed records. A source that several sinks read counts once.", (Query(f"topk(10, namespace_pipeline:kappa_pipeline_lag_records:sum{{{_NS}}})", "{{namespace}}/{{pipeline}}"),), limit="pipelines.behind.records"),
                Panel("Age of the last batch", "Seconds since the last batch of each pipeline began. It also grows while no records arrive.", (Query(f"topk(10, time() - max by (namespace, pipeline) (kappa_pipeline_batch_timestamp_seconds{{{_NS}}}))", "{{namespace}}/{{pipeline}}"),), unit="s", limit="pipelines.stalled.seconds"),
                Panel("Dead letters", "Unreadable records per second.", (Query(f"namespace_pipeline:kappa_pipeline_dead_lettered_rows:rate{{{_NS}}}", "{{namespace}}/{{pipeline}}"),), unit="cps", limit="pipelines.deadLetters.perSecond"),
            ),
        ),
        Row(
            "Lag policies",
            (
                Panel("Severity", "The worst severity among the groups that each LagPolicy selects: 1 is a warning, 2 is critical.", (Query(f"max by (namespace, lagpolicy) (kappa_lagpolicy_severity{{{_NS}}})", "{{namespace}}/{{lagpolicy}}"),)),
                Panel("Healthy, unknown, muted", "1 while the condition holds.", tuple(Query(f"max by (namespace, lagpolicy) (kappa_lagpolicy_{what}{{{_NS}}})", f"{{{{namespace}}}}/{{{{lagpolicy}}}} {what}") for what in ("healthy", "unknown", "muted"))),
                Panel("Unhealthy partitions", "Partitions that are not OK, over all groups that each LagPolicy selects.", (Query(f"max by (namespace, lagpolicy) (kappa_lagpolicy_unhealthy_partitions{{{_NS}}})", "{{namespace}}/{{lagpolicy}}"),)),
            ),
        ),
        Row(
            "Restarts",
            (
                Panel("Restarts", "Restarts of drivers within the window of KappaPipelineCrashLooping.", (Query(f"increase(namespace_pipeline:kappa_pipeline_restarts:max{{{_NS}}}[<<pipelines.crashLooping.window>>])", "{{namespace}}/{{pipeline}}"),), limit="pipelines.crashLooping.restarts"),
                Panel("Recovery", "Duration of the last start of each pipeline, until each query had its first batch.", (Query(f"max by (namespace, pipeline) (kappa_pipeline_recovery_seconds{{{_NS}}})", "{{namespace}}/{{pipeline}}"),), unit="s"),
            ),
        ),
        Row(
            "Operator",
            (
                Panel("Replicas", "Active replicas, and all replicas. One is active.", (Query("sum(kappa_operator_leading)", "active"), Query("count(kappa_operator_leading)", "all")), kind="value"),
                Panel("Resources", "Resources by kind and state, in the cache of the operator.", (Query("max by (kind, state) (kappa_operator_resources)", "{{kind}} {{state}}"),)),
                Panel("Reconciles", "Reconciles per second, by kind.", (Query("kind:kappa_operator_reconciles:rate", "{{kind}}"), Query("kind:kappa_operator_reconciles_failed:rate", "{{kind}} failed")), unit="ops"),
                Panel("Slowest reconciles", "The <<operator.slow.quantile>> quantile of reconcile durations.", (Query("kind:kappa_operator_reconcile_seconds:quantile", "{{kind}}"),), unit="s", limit="operator.slow.seconds"),
                Panel("Work queue", "Resources that wait for a reconcile, or are being reconciled.", (Query("sum(kappa_operator_queue_keys)", "waiting"), Query("sum(kappa_operator_working_keys)", "working"))),
                Panel("Watch delay", "Age of the oldest write without its watch event.", (Query("max(kappa_operator_watch_echo_age_seconds)", "age"),), unit="s", limit="operator.watchOld.seconds"),
                Panel("Watch events", "Watch events per second.", (Query("sum by (kind) (rate(kappa_operator_watch_events_total[<<rate>>]))", "{{kind}}"),), unit="ops"),
                Panel("Last resync", "Seconds since all resources were last queued for a reconcile.", (Query("time() - max(kappa_operator_last_resync_timestamp_seconds > 0)", "age"),), unit="s", limit="operator.resyncOld.seconds"),
            ),
        ),
    ),
)  # fmt: skip
