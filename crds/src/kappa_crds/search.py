"""Search on streams: stored queries, and the documents that they are matched against."""

from typing import Annotated

from pydantic import Field

from kappa_crds.model import COLUMN_KEYS, UNIQUE, ColumnName, Model, SqlName


class StoredQueries(Model):
    """Queries that come as rows: each row is a version of a query, valid from its event time on."""

    from_: Annotated[SqlName, Field(alias="from")]
    """Source or view with the queries."""
    id: ColumnName
    """Column with the id of the query of which a row is a version; NULL for a row that is not a query."""
    query: ColumnName
    """STRING column with the query's text."""
    deleted: ColumnName | None = None
    """BOOLEAN column that is true if the row deletes the query. Default: every query is kept without limit."""


class Search(Model):
    """Each document with each stored query that it matches, of the versions that were valid at its event time.

    A row comes out for each pair, when the watermarks of both have passed the document, so a replay gives the same rows.
    """

    from_: Annotated[SqlName, Field(alias="from")]
    """Source or view with the documents."""
    text: Annotated[tuple[ColumnName, ...], Field(min_length=1, max_length=32), UNIQUE]
    """STRING columns in which words without a field are looked up; queries may name them as fields too."""
    fields: Annotated[tuple[ColumnName, ...], Field(max_length=64), UNIQUE] = ()
    """Further columns, STRING, BOOLEAN or numbers, that queries may name: `dep_delay:>60`."""
    queries: StoredQueries
    """The stored queries."""
    columns: Annotated[dict[ColumnName, ColumnName], Field(min_length=1, max_length=256), COLUMN_KEYS]
    """New columns and the columns of the query's row that they are: `{search: id, owner: owner}`."""
    error: ColumnName = "search_error"
    """New column with the error of an invalid query: such a query has one row, with its
    own columns and event time and no document."""
