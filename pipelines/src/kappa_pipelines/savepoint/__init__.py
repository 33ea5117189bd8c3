"""Savepoints: a committed batch of each query of a pipeline, stored independently of its checkpoint."""
