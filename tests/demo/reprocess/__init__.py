"""A bug in a pipeline, fixed by a reprocessing while readers keep reading (`make demo-reprocess`).

The pipeline shows departures by the local hour of New York. First it uses the offset of winter for the whole year. The fix is computed
over the whole log beside it, compared, and takes over. Then it is rolled back. Readers poll all the time.
"""
