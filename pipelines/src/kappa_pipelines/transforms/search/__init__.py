"""Search on streams: stored queries, each document matched against all of them.

`language` reads a query, `conditions` says what it means for a `document`, `versions` which queries are valid when, `index` finds
those that may match, `step` runs it on a stream and `frame` makes a view of it. `reference` says it all without an index.
"""
