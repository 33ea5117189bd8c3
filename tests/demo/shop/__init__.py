"""An online shop from its database to proven views: PostgreSQL in a pod, one CDCSource, two pipelines.

Run with `PYTHONPATH=tests python -m demo.shop` (`make demo-cdc`). An application writes orders, changes and deletes rows, and a column is
added meanwhile. At the end each view is compared with a query of the database, row for row, and each topic with its table by
`kappa cdc reconcile`. It exits non-zero on any difference.
"""
