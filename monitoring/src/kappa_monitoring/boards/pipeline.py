"""One pipeline: throughput, cost, and records that were not processed."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_ONE = 'namespace="$namespace", pipeline="$pipeline"'


def _largest(metric: str, *labels: str) -> str:
    """Return the largest value among drivers: a standby driver has none, or 0."""
    return f"max by ({', '.join(labels)}) ({metric}{{{_ONE}}})"


def _rate(metric: str, *labels: str) -> str:
    return f"sum by ({', '.join(labels)}) (rate({metric}{{{_ONE}}}[<<rate>>]))"


PIPELINE = Board(
    uid="kappa-pipeline",
    title="Kappa / Pipeline",
    description="One pipeline: metrics of its driver and of the operator.",
    variables=(
        Variable("namespace", "kappa_pipeline_info", "namespace"),
        Variable("pipeline", "kappa_pipeline_info", "pipeline", 'namespace="$namespace"'),
    ),
    rows=(
        Row(
            "State",
            (
                Panel("State", "State, reason and guarantee in the status of the resource.", (Query(_largest("kappa_pipeline_info", "state", "reason", "guarantee"), "{{state}} ({{reason}}), {{guarantee}}"),), kind="value"),
                Panel("Driver", "The state of the driver itself.", (Query(f'{_largest("kappa_pipeline_state", "state")} == 1', "{{state}}"),), kind="value"),
                Panel("Generation", "The fencing token of the driver.", (Query(_largest("kappa_pipeline_generation", "pipeline"), "generation"),), kind="value"),
                Panel("Uptime", "Seconds since the driver started to process records.", (Query(f"time() - ({_largest('kappa_pipeline_up_since_seconds', 'pipeline')} > 0)", "up"),), unit="s", kind="value"),
                Panel("Restarts", "Restarts since the pipeline was created.", (Query(_largest("kappa_pipeline_restarts_total", "pipeline"), "restarts"), Query(_largest("kappa_pipeline_crashes", "pipeline"), "crashes since it was last quiet")), kind="value"),
                Panel("Executors", "Executors registered with the driver.", (Query(_largest("kappa_pipeline_executors", "pipeline"), "executors"),), kind="value"),
            ),
        ),
        Row(
            "Records",
            (
                Panel("Rates", "Records per second that arrive, and that the last batch processed.", (Query(_largest("kappa_pipeline_input_rows_per_second", "sink"), "{{sink}} arriving"), Query(_largest("kappa_pipeline_processed_rows_per_second", "sink"), "{{sink}} processed")), unit="cps"),
                Panel("Records read", "Records read per second.", (Query(f"namespace_pipeline_sink:kappa_pipeline_input_rows:rate{{{_ONE}}}", "{{sink}}"),), unit="cps"),
                Panel("Records written", "Records that each sink writes per second, including dead letters of refused rows.", (Query(f"namespace_pipeline_sink:kappa_pipeline_written_rows:rate{{{_ONE}}}", "{{sink}}"),), unit="cps"),
                Panel("Lag in records", "Unprocessed records, by source.", (Query(f"namespace_pipeline_source:kappa_pipeline_lag_records:max{{{_ONE}}}", "{{source}}"),), limit="pipelines.behind.records"),
                Panel("Watermark", "Age of the event-time watermark: how late results are.", (Query(_largest("kappa_pipeline_watermark_delay_seconds", "sink"), "{{sink}}"),), unit="s", limit="pipelines.watermark.seconds"),
            ),
        ),
        Row(
            "Batches",
            (
                Panel("Batch duration by phase", "Duration of the phases of the last batch. triggerExecution is the total.", (Query(_largest("kappa_pipeline_batch_phase_seconds", "sink", "phase"), "{{sink}} {{phase}}"),), unit="s"),
                Panel("Trigger interval", "The declared time between batches.", (Query(_largest("kappa_pipeline_trigger_interval_seconds", "pipeline"), "interval"),), unit="s", kind="value"),
                Panel("Batches", "Number of the last committed batch. A flat line means no progress.", (Query(_largest("kappa_pipeline_batch_id", "sink"), "{{sink}}"),)),
                Panel("Records per batch", "Records that the last batch read.", (Query(_largest("kappa_pipeline_batch_input_rows", "sink"), "{{sink}}"),)),
                Panel("Age of the last batch", "Seconds since it began. It also grows while no records arrive.", (Query(f"time() - {_largest('kappa_pipeline_batch_timestamp_seconds', 'sink')}", "{{sink}}"),), unit="s", limit="pipelines.stalled.seconds"),
            ),
        ),
        Row(
            "State and recovery",
            (
                Panel("State rows", "Rows over all stateful operators.", (Query(_largest("kappa_pipeline_state_rows", "sink"), "{{sink}}"),)),
                Panel("State memory", "Bytes over all stateful operators.", (Query(_largest("kappa_pipeline_state_bytes", "sink"), "{{sink}}"),), unit="bytes"),
                Panel("Recovery", "Duration of the last start: total, until the first batch began, and loading state, summed over partitions.", (Query(_largest("kappa_pipeline_recovery_seconds", "pipeline"), "in all"), Query(_largest("kappa_pipeline_recovery_prepare_seconds", "pipeline"), "until the first batch"), Query(_largest("kappa_pipeline_recovery_state_load_seconds", "pipeline"), "loading state")), unit="s"),
                Panel("Backlog at the last start", "Records that waited when the first batches began.", (Query(_largest("kappa_pipeline_recovery_records", "pipeline"), "records"),)),
            ),
        ),
        Row(
            "Late, malformed and lost records",
            (
                Panel("Late and malformed", "Rows per second that arrived after the watermark, could not be read, or that the topic of the sink would refuse.", (Query(_rate("kappa_pipeline_late_rows_total", "sink"), "{{sink}} late"), Query(_rate("kappa_pipeline_malformed_rows_total", "sink"), "{{sink}} malformed"), Query(_rate("kappa_pipeline_refused_rows_total", "sink"), "{{sink}} refused")), unit="cps"),
                Panel("By source", "Records read from each source per second, and unreadable ones among them.", (Query(f"max by (source) (rate(kappa_pipeline_source_rows_total{{{_ONE}}}[<<rate>>]))", "{{source}}"), Query(f"max by (source) (rate(kappa_pipeline_source_malformed_rows_total{{{_ONE}}}[<<rate>>]))", "{{source}} malformed")), unit="cps"),
                Panel("Dead letters and late records", "Records per second written to the dead-letter topic, and late records written to side outputs.", (Query(f"namespace_pipeline:kappa_pipeline_dead_lettered_rows:rate{{{_ONE}}}", "dead letters"), Query(_rate("kappa_pipeline_late_record_rows_total", "pipeline"), "late records")), unit="cps", limit="pipelines.deadLetters.perSecond"),
                Panel("Failed writes and commits", "Failed attempts per second. They are retried.", (Query(_rate("kappa_pipeline_dead_letter_errors_total", "pipeline"), "dead letters"), Query(_rate("kappa_pipeline_late_record_errors_total", "pipeline"), "late records"), Query(_rate("kappa_pipeline_group_commit_errors_total", "pipeline"), "consumer group")), unit="ops"),
                Panel("Lost records", "Offsets and batches per second that were removed before they were read again, and transactions of a database whose rows appeared apart. Zero on a healthy pipeline.", (Query(_rate("kappa_pipeline_dead_letter_lost_total", "pipeline"), "dead letters"), Query(_rate("kappa_pipeline_late_record_lost_total", "pipeline"), "late records"), Query(_rate("kappa_pipeline_divided_transactions_total", "pipeline"), "divided transactions")), unit="ops"),
            ),
        ),
    ),
)  # fmt: skip
