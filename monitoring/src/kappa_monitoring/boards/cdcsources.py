"""CDCSources: connectors, the WAL that their slots retain, and proofs that topics equal their tables."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_OF = "{{namespace}}/{{cdcsource}}"


def _read(metric: str, more: str = "") -> str:
    """Return a metric for each source; `more` are further labels that are kept."""
    selector = 'namespace=~"$namespace", cdcsource=~"$cdcsource"'
    return f"max by (namespace, cdcsource{more}) (kappa_cdcsource_{metric}{{{selector}}})"


def _age(metric: str) -> str:
    return f"time() - {_read(metric)}"


SOURCES = Board(
    uid="kappa-cdc-sources",
    title="Kappa / CDC sources",
    description="CDCSources: their connectors, the WAL that slots retain, and proofs that topics equal their tables. What Debezium reads is on Kappa / CDC.",
    variables=(
        Variable("namespace", "kappa_cdcsource_ready", "namespace", many=True),
        Variable("cdcsource", "kappa_cdcsource_ready", "cdcsource", matchers='namespace=~"$namespace"', many=True),
    ),
    rows=(
        Row(
            "Sources",
            (
                Panel("State", "The state of each source, and the reason of its condition Ready.", (Query(_read("info", ", state, reason"), f"{_OF}: {{{{state}}}} ({{{{reason}}}})"),), kind="value"),
                Panel("Changes lost", "1 where changes were lost: the connector is stopped until a new snapshot is requested.", (Query(_read("changes_lost"), _OF),), kind="value"),
                Panel("Restarts", "Restarts of failed tasks in the last hour, and failures in a row.", (Query('sum by (namespace, cdcsource) (increase(kappa_cdcsource_restarts_total{namespace=~"$namespace", cdcsource=~"$cdcsource"}[1h]))', f"{_OF} restarts"), Query(_read("failures"), f"{_OF} failures in a row"))),
                Panel("Snapshot and database", "1 while the rows that the tables have already are read, and where the last check found no error in the database.", (Query(_read("snapshotting"), f"{_OF} snapshot"), Query(_read("database_ready"), f"{_OF} database")), kind="value"),
                Panel("Age of the check", "Seconds since the database was checked: the age of the figures here.", (Query(_age("check_timestamp_seconds"), _OF),), unit="s", limit="cdcSources.uncheckedSlot.seconds"),
                Panel("Tables", "Tables that are read.", (Query(_read("tables"), _OF),)),
            ),
        ),
        Row(
            "Slots",
            (
                Panel("Retained WAL", "Bytes of WAL that the slot keeps on the disk of the database.", (Query(_read("slot_retained_bytes"), _OF),), unit="bytes"),
                Panel("Until the limit", "Bytes until max_slot_wal_keep_size or the limit of the spec is reached. Empty where nothing limits the WAL.", (Query(_read("slot_remaining_bytes"), _OF),), unit="bytes"),
                Panel("Growth", "Bytes per second by which the retained WAL grows since it last became less.", (Query(_read("slot_growth_bytes_per_second"), _OF),), unit="Bps"),
                Panel("Time until the limit", "Seconds until the limit is reached at that rate.", (Query(_read("slot_full_seconds"), _OF), Query(_read("slot_safe"), f"{_OF} is safe")), unit="s", kind="value"),
            ),
        ),
        Row(
            "Binary logs of MySQL and MariaDB",
            (
                Panel("Until changes expire", "Seconds from the last check until the server may remove changes that were not stored. Empty where it removes none by age.", (Query(_read("binlog_expiry_seconds"), _OF),), unit="s"),
                Panel("Kept for long enough", "0 from 12 hours before that, or when half of the retention is left.", (Query(_read("binlog_safe"), f"{_OF} is safe"),), kind="value"),
            ),
        ),
        Row(
            "Proofs",
            (
                Panel("Time since all tables were proven", "Seconds since every table was found equal to its topic.", (Query(_age("proven_timestamp_seconds"), _OF),), unit="s", limit="cdcSources.proofOld.seconds"),
                Panel("Rows that differ", "By the last proof: rows that differ, and rows that could not be compared.", (Query(_read("proof_differing_rows"), f"{_OF} differ"), Query(_read("proof_undecided_rows"), f"{_OF} undecided"))),
                Panel("Tables compared", "Tables that the last proof was to compare, and those that are equal.", (Query(_read("proof_tables"), f"{_OF} tables"), Query(_read("proof_equal_tables"), f"{_OF} equal")), kind="value"),
                Panel("Duration", "Duration of the last proof.", (Query(_read("proof_duration_seconds"), _OF),), unit="s"),
                Panel("Failed proofs", "Proofs in a row that could not be made.", (Query(_read("proof_failures"), _OF),)),
                Panel("Time since the last proof", "Seconds since the last proof ended, whatever its result.", (Query(_age("proof_ended_timestamp_seconds"), _OF),), unit="s"),
            ),
        ),
    ),
)  # fmt: skip
