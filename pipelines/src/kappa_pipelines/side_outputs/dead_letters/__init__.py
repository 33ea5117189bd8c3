"""Dead letters: malformed records, which a bounded job copies to the dead-letter topic.

The main query counts malformed records (`sources.kafka`), which costs a clean stream almost nothing. Only a batch with malformed
records is read again, in its range of offsets, and they are written with the reason in their headers. `ranges` is the
pure bookkeeping, `letters` the records, `position` the stored position, `worker` the background thread.
"""
