"""Outputs beside the sinks of queries: dead letters and late records."""
