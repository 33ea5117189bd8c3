"""Events that keep their identity through a join and the aggregation after it.

Equal events are different events, so each gets an identifier; its columns travel as one struct beside the event time, which has the
watermark.

The identifier is stable when Spark runs a task again: `uuid()` has one seed for each batch, and its values depend only on the seed, on
the partition and on the position of the record in it. Records of a source have a fixed position, given by topic, partition and offset.
Rows of a join in the same query have none: if an executor is lost after their shuffle, such events may be lost or doubled.
"""

from kappa_pipelines.transforms.inputs import Input, quote

TIME = "__kappa_time"
_ID = "__kappa_id"
_EVENT = "__kappa_event"


def select_events(events: Input, time: str, keys: dict[str, str]) -> str:
    """Return the statement that selects the events; `keys` are further columns and their sources."""
    struct = ", ".join(quote(name) for name in events.columns)
    more = "".join(f", {quote(column)} AS {name}" for name, column in keys.items())
    return (
        f"SELECT {quote(time)} AS {TIME}, uuid() AS {_ID}, struct({struct}) AS {_EVENT}{more}"  # noqa: S608 - quoted
        f" FROM {events.name}"
    )


def unpack_columns(events: Input, time: str) -> list[str]:
    """Return the items of a SELECT, grouped by event, with an event's columns in their order."""
    return [
        f"{TIME} AS {quote(name)}" if name == time else f"any_value({_EVENT}).{quote(name)} AS {quote(name)}"
        for name in events.columns
    ]


def group_by_event() -> str:
    """Return the GROUP BY that makes one group of each event."""
    return f"GROUP BY {TIME}, {_ID}"
