"""Reprocessings: phases, the replay of the log by partition, comparisons, and what waits for a person."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_OF = "{{namespace}}/{{reprocessing}}"


def _read(metric: str, more: str = "") -> str:
    """Return a metric for each reprocessing; `more` are further labels that are kept."""
    selector = 'namespace=~"$namespace", reprocessing=~"$reprocessing"'
    return f"max by (namespace, reprocessing{more}) (kappa_reprocessing_{metric}{{{selector}}})"


REPROCESSINGS = Board(
    uid="kappa-reprocessings",
    title="Kappa / Reprocessings",
    description="Reprocessings: a second version of a pipeline over the whole log, its comparison with the active one, and its cutover.",
    variables=(
        Variable("namespace", "kappa_reprocessing_info", "namespace", many=True),
        Variable("reprocessing", "kappa_reprocessing_info", "reprocessing", matchers='namespace=~"$namespace"', many=True),
    ),
    rows=(
        Row(
            "Phases",
            (
                Panel("Phase", "The pipeline and the phase of each reprocessing, and the reason of its condition Ready.", (Query(_read("info", ", pipeline, phase, reason"), f"{_OF} of {{{{pipeline}}}}: {{{{phase}}}} ({{{{reason}}}})"),), kind="value"),
                Panel("Time in this phase", "Seconds since the phase began.", (Query(f"time() - {_read('phase_timestamp_seconds')}", _OF),), unit="s", kind="value"),
                Panel("Waits for a person", "1 while a person has to decide.", (Query(_read("waiting"), _OF),), kind="value"),
                Panel("Time until the deadline", "Seconds until it fails without a cutover.", (Query(f"{_read('deadline_timestamp_seconds')} - time()", _OF),), unit="s", kind="value"),
            ),
        ),
        Row(
            "Replay of the log",
            (
                Panel("Remaining records", "Records that the new version has not read, and those that the active one has not.", (Query(_read("lag_records"), f"{_OF} new version"), Query(_read("active_lag_records"), f"{_OF} active version"))),
                Panel("Rate", "Records that the new version reads per second.", (Query(_read("records_per_second"), _OF),), unit="cps"),
                Panel("Remaining records by partition", "The ten partitions that are furthest behind.", (Query(f"topk(10, {_read('partition_lag_records', ', topic, partition')})", f"{_OF}: {{{{topic}}}}/{{{{partition}}}}"),)),
                Panel("Time left by partition", "Seconds until a partition has caught up; the ten longest. Empty where it falls behind.", (Query(f"topk(10, {_read('partition_eta_seconds', ', topic, partition')})", f"{_OF}: {{{{topic}}}}/{{{{partition}}}}"),), unit="s"),
            ),
        ),
        Row(
            "Comparison and log",
            (
                Panel("Unexpected differences", "Rows that differ beyond the tolerance. Empty before a comparison, and where the result is not known.", (Query(_read("unexpected_rows"), _OF),), kind="value"),
                Panel("Rows compared", "Rows of the last comparison, by sink and result.", (Query(_read("rows", ", sink, result"), f"{_OF} {{{{sink}}}}: {{{{result}}}}"),)),
                Panel("Missing records", "Offsets that are missing at the start of the log.", (Query(_read("missing_records"), _OF),), kind="value"),
                Panel("Retention not held", "Topics whose retention may delete records before the cutover.", (Query(_read("unheld_topics"), _OF),), kind="value"),
            ),
        ),
    ),
)  # fmt: skip
