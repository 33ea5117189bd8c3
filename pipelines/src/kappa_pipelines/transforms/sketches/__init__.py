"""Functions for SQL that keep little of many values: filters and sketches that are built, merged and asked in views.

Each call is written out as functions of Spark's own before Spark sees the view, so they work wherever aggregates do, also
over streams, and no Python runs for a record.
"""
