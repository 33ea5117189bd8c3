"""The run of a pipeline beside the active one: for a reprocessing, and for the soak time after its cutover (ADR 66)."""
