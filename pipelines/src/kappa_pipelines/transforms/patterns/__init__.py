"""Patterns: events of a key that follow each other as a pattern says, one row for each match.

`syntax` reads what follows what, `matcher` says what it means, `automaton` and `search` find the same as events come,
`conditions` are evaluated by it; `expressions` and `measures` take SQL apart, `frame` makes a view of it all.
"""
