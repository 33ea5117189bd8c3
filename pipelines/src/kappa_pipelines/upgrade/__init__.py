"""Compatibility of a new revision with the state of the running one: compared by plan, and tried on a copy."""
