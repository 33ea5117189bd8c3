"""A pipeline that reprocesses its log: progress of the change, remaining work, and results that are rewritten."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_ONE = 'namespace="$namespace", pipeline="$pipeline"'
_WAITING = f"namespace_pipeline_source:kappa_pipeline_lag_records:max{{{_ONE}}}"
_FALLING = f"-deriv({_WAITING}[<<rate>>])"


def _largest(metric: str, *labels: str) -> str:
    """Return the largest value among drivers: a standby driver has none, or 0."""
    return f"max by ({', '.join(labels)}) ({metric}{{{_ONE}}})"


REPROCESSING = Board(
    uid="kappa-reprocessing",
    title="Kappa / Reprocessing",
    description="The last change of a pipeline, and its progress through older records of the log.",
    variables=(
        Variable("namespace", "kappa_pipeline_upgrade_info", "namespace"),
        Variable("pipeline", "kappa_pipeline_upgrade_info", "pipeline", 'namespace="$namespace"'),
    ),
    rows=(
        Row(
            "Change",
            (
                Panel("Last change", "Phase and mode of the change, and its verdict on the state.", (Query(_largest("kappa_pipeline_upgrade_info", "phase", "mode", "verdict"), "{{phase}}: {{mode}}, {{verdict}}"),), kind="value"),
                Panel("Time in this phase", "Seconds since the phase began.", (Query(f"time() - {_largest('kappa_pipeline_upgrade_phase_timestamp_seconds', 'pipeline')}", "phase"),), unit="s", kind="value"),
                Panel("Sources read from the start", "Sources that the change reads from their first available record; 0 if it continues from the previous state.", (Query(_largest("kappa_pipeline_upgrade_sources_from_beginning", "pipeline"), "sources"),), kind="value"),
                Panel("Generation", "The fencing token of the driver. Each new driver increases it by one.", (Query(_largest("kappa_pipeline_generation", "pipeline"), "generation"),), kind="value"),
            ),
        ),
        Row(
            "Remaining work",
            (
                Panel("Remaining records", "Unprocessed records, by source.", (Query(_WAITING, "{{source}}"),)),
                Panel("Remaining time", "Remaining records divided by the rate of catching up; years if there is no progress.", (Query(f"{_WAITING} / clamp_min({_FALLING}, <<reprocessing.noProgress.perSecond>>)", "{{source}}"),), unit="s"),
                Panel("Rate of catching up", "Decrease of the remaining records per second. It is negative while their number grows.", (Query(_FALLING, "{{source}}"),), unit="cps"),
                Panel("Watermark age", "Age of the event-time watermark. It falls from the age of the log to that of a pipeline without lag.", (Query(_largest("kappa_pipeline_watermark_delay_seconds", "sink"), "{{sink}}"),), unit="s"),
            ),
        ),
        Row(
            "Cost",
            (
                Panel("Records read", "Records read per second.", (Query(f"namespace_pipeline_sink:kappa_pipeline_input_rows:rate{{{_ONE}}}", "{{sink}}"),), unit="cps"),
                Panel("Records rewritten", "Records that each sink writes per second. Until the pipeline has caught up, these results were written before.", (Query(f"namespace_pipeline_sink:kappa_pipeline_written_rows:rate{{{_ONE}}}", "{{sink}}"),), unit="cps"),
                Panel("State rows", "Rows over all stateful operators. They grow to their previous number.", (Query(_largest("kappa_pipeline_state_rows", "sink"), "{{sink}}"),)),
                Panel("Batch duration", "Duration of the last batch.", (Query(f'max by (sink) (kappa_pipeline_batch_phase_seconds{{{_ONE}, phase="triggerExecution"}})', "{{sink}}"),), unit="s"),
            ),
        ),
    ),
)  # fmt: skip
