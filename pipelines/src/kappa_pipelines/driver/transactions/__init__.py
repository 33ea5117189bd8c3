"""Batches that end between transactions of a database: which changes are one transaction, where it ends, and how far queries may read."""
