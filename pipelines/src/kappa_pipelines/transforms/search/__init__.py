"""Search on streams: stored queries, each document matched against all of them.

`language` parses a query, `conditions` evaluates it on a `document`, `versions` tracks which queries are valid when, `index` finds
the queries that may match, `step` runs it on a stream and `frame` builds the view.
"""
