"""Reprocessings: the log again beside the active version, the comparison, and the cutover."""
