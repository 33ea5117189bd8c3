"""Writes and checks the files that are generated from code: CRDs, rules, dashboards and reference pages."""
