"""The runtime that a driver pod runs: a revision compiled to native Spark plans, supervised and reported.

`python -m kappa_pipelines [REVISION_FILE]` is the entry. `driver` puts the parts together; `compile` turns a
revision into queries; `listener` and `progress` turn Spark's events into the one typed record that `control`
serves; `deadletter` keeps records that cannot be read; `checkpoint` fences generations and reads positions;
`stop` ends a query at a committed batch. Nothing here runs Python for a record.
"""
