"""Rows that came too late for a window, found again and written to a topic.

Spark drops them in the midst of its plan and says only how many. What a batch dropped is decided by its offsets and by the
watermark of the batch before, and both are in the offset log; so a batch that dropped rows is read again, and the same rows are
found, however often. See ADR 0008.

`batch` is what the log says, `ledger` the bookkeeping (pure), `origin` carries a record's place through the views, `rows` finds
what was too late, `letters` are the records written, `scan` the Spark job, `position` what is kept durably, and `worker` runs it
beside the query.
"""
