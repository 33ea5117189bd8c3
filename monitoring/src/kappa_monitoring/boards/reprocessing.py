"""A pipeline that works through its log again: how far the change is, how much is left, and what is written again meanwhile."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_ONE = 'namespace="$namespace", pipeline="$pipeline"'
_WAITING = f"namespace_pipeline_source:kappa_pipeline_lag_records:max{{{_ONE}}}"
_FALLING = f"-deriv({_WAITING}[<<rate>>])"


def _largest(metric: str, *labels: str) -> str:
    """Return the largest value among drivers: one that stands by has none, or 0."""
    return f"max by ({', '.join(labels)}) ({metric}{{{_ONE}}})"


REPROCESSING = Board(
    uid="kappa-reprocessing",
    title="Kappa / Reprocessing",
    description="The last change of a pipeline, and how it works through what was in the log before.",
    variables=(
        Variable("namespace", "kappa_pipeline_upgrade_info", "namespace"),
        Variable("pipeline", "kappa_pipeline_upgrade_info", "pipeline", 'namespace="$namespace"'),
    ),
    rows=(
        Row(
            "The change",
            (
                Panel("Last change", "How far it is, the mode it is made in, and what it means for the state.", (Query(_largest("kappa_pipeline_upgrade_info", "phase", "mode", "verdict"), "{{phase}}: {{mode}}, {{verdict}}"),), kind="value"),
                Panel("In this phase for", "Seconds since that phase began.", (Query(f"time() - {_largest('kappa_pipeline_upgrade_phase_timestamp_seconds', 'pipeline')}", "phase"),), unit="s", kind="value"),
                Panel("Sources read from the start", "Sources that the change reads from the first record that they still have; 0 where it goes on from the state that there was.", (Query(_largest("kappa_pipeline_upgrade_sources_from_beginning", "pipeline"), "sources"),), kind="value"),
                Panel("Generation", "The fencing token of the driver: it grows by one with each.", (Query(_largest("kappa_pipeline_generation", "pipeline"), "generation"),), kind="value"),
            ),
        ),
        Row(
            "What is left",
            (
                Panel("Records still to read", "Records not processed yet, by source.", (Query(_WAITING, "{{source}}"),)),
                Panel("Time that is left", "Records still to read by how many fewer they become a second; years where they do not.", (Query(f"{_WAITING} / clamp_min({_FALLING}, <<reprocessing.standsStill.perSecond>>)", "{{source}}"),), unit="s"),
                Panel("Fewer a second", "How fast the records that are left become fewer; below zero they become more.", (Query(_FALLING, "{{source}}"),), unit="cps"),
                Panel("Where in time results are", "The age of the event-time watermark: it falls from the age of the log to that of a pipeline that keeps up.", (Query(_largest("kappa_pipeline_watermark_delay_seconds", "sink"), "{{sink}}"),), unit="s"),
            ),
        ),
        Row(
            "What it costs",
            (
                Panel("Records read", "Records read a second.", (Query(f"namespace_pipeline_sink:kappa_pipeline_input_rows:rate{{{_ONE}}}", "{{sink}}"),), unit="cps"),
                Panel("Records written again", "Records that each sink writes a second. Until the pipeline has caught up, these are results that were written before.", (Query(f"namespace_pipeline_sink:kappa_pipeline_written_rows:rate{{{_ONE}}}", "{{sink}}"),), unit="cps"),
                Panel("Rows of state", "Rows over all operators; they grow to what they were.", (Query(_largest("kappa_pipeline_state_rows", "sink"), "{{sink}}"),)),
                Panel("Time of a batch", "How long the last batch took.", (Query(f'max by (sink) (kappa_pipeline_batch_phase_seconds{{{_ONE}, phase="triggerExecution"}})', "{{sink}}"),), unit="s"),
            ),
        ),
    ),
)  # fmt: skip
