"""Schemas that records name by an id: asked of a schema registry when a driver starts, and remembered beside the checkpoint."""
