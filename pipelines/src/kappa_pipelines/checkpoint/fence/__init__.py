"""Fencing: one generation of drivers owns a checkpoint at a time."""
