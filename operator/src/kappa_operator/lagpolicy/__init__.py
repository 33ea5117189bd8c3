"""The kind LagPolicy: evaluates lag, notifies and remediates."""
