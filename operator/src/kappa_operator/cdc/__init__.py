"""Databases as sources of change events: whether a database is ready for Debezium.

`postgresql` and `mysql` gather facts, `rules` decides what is wrong and how to fix it.
"""
