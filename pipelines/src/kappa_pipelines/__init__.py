"""The runtime of a driver pod: it compiles a revision to native Spark plans, supervises them and reports their progress.

`python -m kappa_pipelines [REVISION_FILE]` is the entry point. `driver` connects the parts. `plan` compiles a revision to queries of
`sources`, `transforms` and `sinks`. `checkpoint` has stores and fences, `savepoint` copies of checkpoints, `upgrade` dry runs and
repartitions. `side_outputs` writes dead letters and late records. `reporting` serves progress and metrics.
"""
