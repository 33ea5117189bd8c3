"""The dashboards as data: one per module. `dashboards` builds the JSON for Grafana."""
