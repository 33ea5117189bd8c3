"""Schemas that records name by an id: fetched from a schema registry when a driver starts; the choice is stored with the checkpoint."""
