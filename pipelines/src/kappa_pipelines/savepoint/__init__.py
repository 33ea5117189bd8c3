"""Savepoints: a committed batch of every query of a pipeline, kept apart from the checkpoint that it was taken from."""
