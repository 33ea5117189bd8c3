"""Batch SQL that streams do not support, with its replacement.

Spark's own messages contain parts of plans, and one recommends to switch a check off, after which results are wrong.
"""

import re

_BOUND = "give both sources an eventTime and limit how far apart the two may be, as in `b.time BETWEEN a.time AND a.time + INTERVAL 1 HOUR`"
_TOP = "`slice(sort_array(collect_list(struct(price, id)), false), 1, 3)`"
WINDOW_IN_JOIN = (
    "window() has no meaning in the condition of a join; make a column of it in a view for each side, as in"
    " `SELECT *, window(time, '10 seconds') AS w FROM bids`, and join these views on w"
)
WAYS: tuple[tuple[str, str], ...] = (
    (
        r"possible 'correctness' issue",
        "a step that keeps state follows another whose rows may come after the watermark has passed them, so results would be wrong;"
        " write it as two pipelines: the first writes final rows to a topic (a sink in mode append), the second reads that topic."
        " In mode append an aggregation may follow another in one pipeline if both group by the same window",
    ),
    (
        r"NON_TIME_WINDOW_NOT_SUPPORTED|Non-time-based windows are not supported",
        "a function OVER (…) needs all rows of its partition, and a stream never has all; group by a window of the event time instead."
        f" For row_number and rank: `max_by(struct(*), price)` is the row with the highest price, {_TOP} are the best three."
        " For lag and lead: `sort_array(collect_list(struct(time, price)))` has the rows in order, and a view of kind pattern"
        " compares a row with those before it. For running totals: a view of kind sliding",
    ),
    (
        r"Distinct aggregations are not supported",
        "a stream has no aggregates of DISTINCT values; write `size(collect_set(x))` for `count(DISTINCT x)`, or"
        " `approx_count_distinct(x)` where there are many",
    ),
    (
        r"Streaming query is not allowed in subquery|subquery expressions",
        "a stream cannot be read in IN (SELECT …), EXISTS (SELECT …) or (SELECT …) as a value; join it: a JOIN with a bound in time,"
        " for NOT IN and NOT EXISTS a LEFT JOIN with one and `WHERE b.id IS NULL`, for the present row of a table a view of kind"
        f" lookup. In a join of two streams {_BOUND}",
    ),
    (
        r"LeftAnti joins|Except on a streaming",
        "rows that have no partner are known only once no partner can come any more; write a LEFT JOIN with a bound in time and"
        f" `WHERE b.id IS NULL`: {_BOUND}",
    ),
    (
        r"Stream-stream \w+ join .* is not supported without a watermark",
        "whether a row has no partner, or needs no other one, is known only once no partner can come any more; so"
        f" {_BOUND}. For the present row of a table take a view of kind lookup",
    ),
    (
        r"Intersect of streaming",
        f"a stream has no INTERSECT; write a JOIN with a bound in time: {_BOUND}",
    ),
    (
        r"Sorting is not supported",
        f"a stream has no end, so it cannot be sorted; leave ORDER BY out. For the best three rows of a group write {_TOP} and group by a"
        " window of the event time. Only mode complete sorts, the groups of an aggregation",
    ),
    (
        r"aggregate function in the argument of another aggregate",
        "an aggregate of an aggregate takes two steps; put the inner one into a view of its own, grouped by a window of the event time,"
        " and aggregate that view, grouped by its window",
    ),
    (
        r"aggregations? without watermark|streaming aggregations on streaming",
        "mode append writes final rows only, and here nothing ever makes a group or a distinct row final: group by a window of the event time"
        " itself, `window(time, '1 hour')`, also in DISTINCT. A time that is computed, such as `date_trunc('hour', time)` or `window.start`,"
        " has no watermark; of a window that a view has already, `window_time(window)` has. A source without eventTime needs one. Or use"
        " mode update with a key",
    ),
)
"""Patterns of Spark's messages, and what to write instead."""


def find_way(message: str) -> str | None:
    """Return what to write instead of what Spark refuses; None where Spark's own message has to do."""
    return next((way for pattern, way in WAYS if re.search(pattern, message)), None)
