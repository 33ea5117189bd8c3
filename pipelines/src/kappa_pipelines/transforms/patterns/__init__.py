"""Patterns: sequences of events of a key that match a pattern, one row for each match.

`syntax` parses the pattern, `automaton` compiles it, `search` runs the automaton over events, `conditions` evaluates conditions
that refer to earlier events, `expressions` and `measures` parse SQL, `frame` builds the view.
"""
