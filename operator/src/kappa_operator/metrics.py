"""Every metric of the operator, declared once. Labels are bounded: kinds and outcomes, never names."""

from prometheus_client import Counter, Gauge, Histogram

RECONCILES = Counter(
    "kappa_operator_reconciles_total", "Reconciles by kind and outcome.", ["kind", "outcome"]
)
RECONCILE_SECONDS = Histogram(
    "kappa_operator_reconcile_seconds",
    "Duration of one reconcile in seconds.",
    ["kind"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)
QUEUE_KEYS = Gauge("kappa_operator_queue_keys", "Resources that wait for a look, now or later.")
WORKING_KEYS = Gauge("kappa_operator_working_keys", "Resources that are being looked at.")
EVENTS = Counter("kappa_operator_watch_events_total", "Watch events by kind.", ["kind"])
EVENT_AGE = Gauge(
    "kappa_operator_watch_echo_age_seconds", "Age of the oldest own write that no watch has shown yet."
)
LEADING = Gauge("kappa_operator_leading", "1 while this replica is the one that acts.")
RESOURCES = Gauge("kappa_operator_resources", "Resources known by kind and state.", ["kind", "state"])
LAST_RESYNC = Gauge(
    "kappa_operator_last_resync_timestamp_seconds", "When all resources were last queued for another look"
)
ADMISSIONS = Counter(
    "kappa_operator_admissions_total",
    "Pipelines that were applied, by what became of their warnings.",
    ["outcome"],
)
