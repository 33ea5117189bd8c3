"""One pipeline: what goes in, what it costs, what is left over."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_ONE = 'namespace="$namespace", pipeline="$pipeline"'


def _largest(metric: str, *labels: str) -> str:
    """Return the largest value among drivers: one that stands by has none, or 0."""
    return f"max by ({', '.join(labels)}) ({metric}{{{_ONE}}})"


def _rate(metric: str, *labels: str) -> str:
    return f"sum by ({', '.join(labels)}) (rate({metric}{{{_ONE}}}[<<rate>>]))"


PIPELINE = Board(
    uid="kappa-pipeline",
    title="Kappa / Pipeline",
    description="One pipeline, by what its driver and the operator say.",
    variables=(
        Variable("namespace", "kappa_pipeline_info", "namespace"),
        Variable("pipeline", "kappa_pipeline_info", "pipeline", 'namespace="$namespace"'),
    ),
    rows=(
        Row(
            "State",
            (
                Panel("State", "The state, the reason and the guarantee, as the operator says.", (Query(_largest("kappa_pipeline_info", "state", "reason", "guarantee"), "{{state}} ({{reason}}), {{guarantee}}"),), kind="value"),
                Panel("Driver", "The state of the driver itself.", (Query(f'{_largest("kappa_pipeline_state", "state")} == 1', "{{state}}"),), kind="value"),
                Panel("Generation", "The fencing token of the driver.", (Query(_largest("kappa_pipeline_generation", "pipeline"), "generation"),), kind="value"),
                Panel("Up for", "Seconds since the driver began to process.", (Query(f"time() - ({_largest('kappa_pipeline_up_since_seconds', 'pipeline')} > 0)", "up"),), unit="s", kind="value"),
                Panel("Restarts", "Restarts in the pipeline's life.", (Query(_largest("kappa_pipeline_restarts_total", "pipeline"), "restarts"), Query(_largest("kappa_pipeline_crashes", "pipeline"), "crashes since it was last quiet")), kind="value"),
                Panel("Executors", "Executors registered with the driver.", (Query(_largest("kappa_pipeline_executors", "pipeline"), "executors"),), kind="value"),
            ),
        ),
        Row(
            "Records",
            (
                Panel("Rates", "Records that arrive, and that the last batch processed, a second.", (Query(_largest("kappa_pipeline_input_rows_per_second", "sink"), "{{sink}} arriving"), Query(_largest("kappa_pipeline_processed_rows_per_second", "sink"), "{{sink}} processed")), unit="cps"),
                Panel("Records read", "Records read a second, over time.", (Query(f"namespace_pipeline_sink:kappa_pipeline_input_rows:rate{{{_ONE}}}", "{{sink}}"),), unit="cps"),
                Panel("Records written", "Records that each sink writes a second, letters of refused rows among them.", (Query(f"namespace_pipeline_sink:kappa_pipeline_written_rows:rate{{{_ONE}}}", "{{sink}}"),), unit="cps"),
                Panel("Records waiting", "Records not processed yet, by source.", (Query(f"namespace_pipeline_source:kappa_pipeline_lag_records:max{{{_ONE}}}", "{{source}}"),), limit="pipelines.behind.records"),
                Panel("Watermark", "Age of the event-time watermark: how far results are behind.", (Query(_largest("kappa_pipeline_watermark_delay_seconds", "sink"), "{{sink}}"),), unit="s", limit="pipelines.watermark.seconds"),
            ),
        ),
        Row(
            "Batches",
            (
                Panel("Time of a batch by phase", "Where the last batch spent its time; triggerExecution is all of it.", (Query(_largest("kappa_pipeline_batch_phase_seconds", "sink", "phase"), "{{sink}} {{phase}}"),), unit="s"),
                Panel("Interval", "The time from batch to batch that is declared.", (Query(_largest("kappa_pipeline_trigger_interval_seconds", "pipeline"), "interval"),), unit="s", kind="value"),
                Panel("Batches", "The last committed batch; a flat line is no progress.", (Query(_largest("kappa_pipeline_batch_id", "sink"), "{{sink}}"),)),
                Panel("Records of a batch", "Records that the last batch read.", (Query(_largest("kappa_pipeline_batch_input_rows", "sink"), "{{sink}}"),)),
                Panel("Age of the last batch", "Seconds since it began. It grows too while nothing arrives.", (Query(f"time() - {_largest('kappa_pipeline_batch_timestamp_seconds', 'sink')}", "{{sink}}"),), unit="s", limit="pipelines.stalled.seconds"),
            ),
        ),
        Row(
            "State and recovery",
            (
                Panel("Rows of state", "Rows over all operators.", (Query(_largest("kappa_pipeline_state_rows", "sink"), "{{sink}}"),)),
                Panel("Memory of state", "Bytes over all operators.", (Query(_largest("kappa_pipeline_state_bytes", "sink"), "{{sink}}"),), unit="bytes"),
                Panel("Recovery", "How long the last start took: in all, until the first batch began, and loading state, summed over partitions.", (Query(_largest("kappa_pipeline_recovery_seconds", "pipeline"), "in all"), Query(_largest("kappa_pipeline_recovery_prepare_seconds", "pipeline"), "until the first batch"), Query(_largest("kappa_pipeline_recovery_state_load_seconds", "pipeline"), "loading state")), unit="s"),
                Panel("Caught up at the last start", "Records that were waiting when the first batches began.", (Query(_largest("kappa_pipeline_recovery_records", "pipeline"), "records"),)),
            ),
        ),
        Row(
            "What is left over",
            (
                Panel("Late and malformed", "Rows a second that came after the watermark, could not be read, or that the sink's topic would refuse.", (Query(_rate("kappa_pipeline_late_rows_total", "sink"), "{{sink}} late"), Query(_rate("kappa_pipeline_malformed_rows_total", "sink"), "{{sink}} malformed"), Query(_rate("kappa_pipeline_refused_rows_total", "sink"), "{{sink}} refused")), unit="cps"),
                Panel("By source", "Records read of each source a second, and those of it that could not be read.", (Query(f"max by (source) (rate(kappa_pipeline_source_rows_total{{{_ONE}}}[<<rate>>]))", "{{source}}"), Query(f"max by (source) (rate(kappa_pipeline_source_malformed_rows_total{{{_ONE}}}[<<rate>>]))", "{{source}} malformed")), unit="cps"),
                Panel("Dead letters and stragglers", "Records a second written to the dead-letter topic, and late rows written to topics.", (Query(f"namespace_pipeline:kappa_pipeline_dead_lettered_rows:rate{{{_ONE}}}", "dead letters"), Query(_rate("kappa_pipeline_straggler_rows_total", "pipeline"), "stragglers")), unit="cps", limit="pipelines.deadLetters.perSecond"),
                Panel("Failed writes and commits", "Tries a second that failed; they are made again.", (Query(_rate("kappa_pipeline_dead_letter_errors_total", "pipeline"), "dead letters"), Query(_rate("kappa_pipeline_straggler_errors_total", "pipeline"), "stragglers"), Query(_rate("kappa_pipeline_group_commit_errors_total", "pipeline"), "consumer group")), unit="ops"),
                Panel("Lost", "Offsets and batches a second that were gone before they were looked through. Always zero where all is well.", (Query(_rate("kappa_pipeline_dead_letter_lost_total", "pipeline"), "dead letters"), Query(_rate("kappa_pipeline_straggler_lost_total", "pipeline"), "stragglers")), unit="ops"),
            ),
        ),
    ),
)  # fmt: skip
