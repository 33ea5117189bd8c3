"""The flights example from an empty machine to a proof: load a year of flights, compute, compare with DuckDB.

Run with `PYTHONPATH=tests python -m demo` (`make demo`). It installs the chart on the local cluster (`lab`), applies
`pipelines/examples/flights/`, loads the data, watches the pipeline until it has processed every record and compares
the result topic with a query of an independent engine, key by key. It exits non-zero on any difference.
"""
