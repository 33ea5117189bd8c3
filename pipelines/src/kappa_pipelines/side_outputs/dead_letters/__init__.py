"""Records that cannot be read: counted by the main query, copied to the dead-letter topic by a bounded job.

The main query counts malformed records as it goes (`sources.kafka`), so a clean stream pays next to nothing. Only a
batch that had some is read again, in just its offset range, and its malformed records are written with the reason
in their headers. `ranges` is the bookkeeping (pure), `scan` the Spark job, `position` what is kept durably,
`worker` the thread that runs it beside the query.
"""
