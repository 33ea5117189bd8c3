"""Late records: rows that arrived too late for a window, which a bounded job writes to a topic.

Spark drops them inside its plan and reports only their number. The offsets of a batch and the watermark of the previous batch determine
them, and both are in the offset log. So a batch with dropped rows can be read again, and the result is the same each time. See ADR 0008.

`sources.batches` reads the offset log, `plan.late_rows` finds the rows, `plan.origin` carries the position of a record through the views.
`ledger` is the pure bookkeeping, `letters` the records, `worker` the background thread.
"""
