"""Comparison of two versions of an output topic at the same input."""
