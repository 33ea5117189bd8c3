"""Metrics that the operator counts itself. Labels are bounded: kinds and outcomes, never names."""

from prometheus_client import Counter, Gauge, Histogram

from kappa_crds.kinds import KINDS
from kappa_operator.telemetry.declare import Declared, describe_counted

RECONCILES = Counter(
    "kappa_operator_reconciles_total", "Reconciles by kind and outcome.", ["kind", "outcome"]
)
RECONCILE_SECONDS = Histogram(
    "kappa_operator_reconcile_seconds",
    "Duration of one reconcile in seconds.",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
QUEUE_KEYS = Gauge("kappa_operator_queue_keys", "Resources that wait for a reconcile, now or later.")
WORKING_KEYS = Gauge("kappa_operator_working_keys", "Resources that are being reconciled.")
EVENTS = Counter("kappa_operator_watch_events_total", "Watch events by kind.", ["kind"])
EVENT_AGE = Gauge(
    "kappa_operator_watch_echo_age_seconds", "Age of the oldest own write that no watch has shown yet."
)
LEADING = Gauge("kappa_operator_leading", "1 while this replica is the one that acts.")
LAST_RESYNC = Gauge(
    "kappa_operator_last_resync_timestamp_seconds", "When all resources were last queued, Unix time."
)
ADMISSIONS = Counter(
    "kappa_operator_admissions_total",
    "Pipelines that were applied, by the outcome of their warnings.",
    ["outcome"],
)
METRICS: tuple[Declared[None], ...] = tuple(map(describe_counted, (
    RECONCILES, RECONCILE_SECONDS, QUEUE_KEYS, WORKING_KEYS, EVENTS, EVENT_AGE, LEADING, LAST_RESYNC, ADMISSIONS,
)))  # fmt: skip
OUTCOMES, ADMISSION_OUTCOMES = ("ok", "conflict", "failed", "unexpected error"), ("ok", "late", "failed")


def begin_counting() -> None:
    """Start every counter at 0: Prometheus sees no increase in a series whose first value is 1, and the first failure matters."""
    for kind in KINDS:
        for outcome in OUTCOMES:
            RECONCILES.labels(kind.name, outcome)
    for outcome in ADMISSION_OUTCOMES:
        ADMISSIONS.labels(outcome)


begin_counting()
