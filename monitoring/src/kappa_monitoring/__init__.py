"""Rules, alerts and dashboards for Prometheus and Grafana, made from one config and checked against the metrics that the code declares."""

from pathlib import Path

MONITORING = Path(__file__).resolve().parents[2]
"""The folder `monitoring` of the checkout."""
REPOSITORY = MONITORING.parent
