"""The dashboards, as data: each module has one, `dashboards` makes Grafana's JSON of it."""
