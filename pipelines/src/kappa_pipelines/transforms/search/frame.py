"""A search as a view: documents and queries become one stream, a step matches them, and their columns are unpacked."""

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
)

from kappa_crds.reasons import Reason
from kappa_crds.search import Search as SearchView
from kappa_pipelines.analysis.state import State
from kappa_pipelines.errors import SpecError
from kappa_pipelines.transforms.inputs import ColumnKind, Input, check_new_columns, quote, read_input
from kappa_pipelines.transforms.key_groups import Output, micros, pack, run_step, unpack
from kappa_pipelines.transforms.search.document import Fields, Kind
from kappa_pipelines.transforms.search.step import STORED, Found, Given, Role, Search

COST = (
    "tests a document against the queries that share a word or number with it, and against all that need none, such as those of NOT or"
    " ranges alone"
)
"""A line of `kappa explain`."""
_TIME = "__kappa_time"
_KINDS: tuple[tuple[type[DataType], Kind], ...] = (
    (StringType, Kind.WORDS),
    (BooleanType, Kind.WORDS),
    (IntegralType, Kind.EXACT),
    (DecimalType, Kind.EXACT),
    (FloatType, Kind.FLOAT),
    (DoubleType, Kind.FLOAT),
)
_TEXT, _FLAG = ColumnKind("STRING", (StringType,)), ColumnKind("BOOLEAN", (BooleanType,))
_TYPES = {
    "time": "BIGINT",
    "id": "STRING",
    "text": "STRING",
    "deleted": "BOOLEAN",
    "packed": "STRING",
    "role": "STRING",
}
_OUTPUT = Output(
    dict(zip(Found._fields, ("TIMESTAMP", "STRING", "STRING", "STRING"), strict=True)), time="time"
)


def build_search(spark: SparkSession, view: str, search: SearchView) -> DataFrame:
    """Return the rows of the view; SpecError for columns that are unknown or of another type."""
    documents, queries = read_input(spark, search.from_), read_input(spark, search.queries.from_)
    fields = _check(view, search, documents, queries)
    time = documents.find_time(view)
    rows = _read_documents(spark, documents, time).unionByName(
        _read_queries(spark, search, queries, queries.find_time(view))
    )
    found = run_step(
        rows,
        "packed",
        {name: f.col(name) for name in Given._fields},
        Search(view, fields),
        _OUTPUT,
        time=_TIME,
        to_all=f.col("role") == Role.VERSION.value,
        apart=STORED,
    )
    return _open(found, search, documents, queries, time)


def _check(view: str, search: SearchView, documents: Input, queries: Input) -> Fields:
    """Return the columns that can be searched; SpecError for columns that are unknown or of another type."""
    stored = search.queries
    documents.find_columns(view, "search.text", search.text, _TEXT)
    documents.check_columns(view, "search.fields", search.fields)
    queries.check_columns(view, "search.queries.id", [stored.id])
    queries.find_columns(view, "search.queries.query", [stored.query], _TEXT)
    queries.find_columns(view, "search.queries.deleted", [stored.deleted] if stored.deleted else [], _FLAG)
    queries.check_columns(view, "search.columns", search.columns.values())
    check_new_columns(view, "search.columns", search.columns, documents.columns)
    check_new_columns(view, "search.error", [search.error], [*documents.columns, *search.columns])
    searched = dict.fromkeys(name.lower() for name in (*search.text, *search.fields))
    kinds = tuple((name, _find_kind(view, documents, name)) for name in searched)
    return Fields(tuple(name.lower() for name in search.text), kinds)


def _find_kind(view: str, documents: Input, name: str) -> Kind:
    kind = documents.find_type(name)
    for known, found in _KINDS:
        if isinstance(kind, known):
            return found
    raise SpecError(
        Reason.UNSUPPORTED_QUERY,
        f"view {view!r}: search.fields names column {name!r}, which is {kind.simpleString().upper()}; only STRING, BOOLEAN"
        " and numbers can be searched, so cast it in a preceding view",
    )


def _read_documents(spark: SparkSession, documents: Input, time: str) -> DataFrame:
    packed = [name for name in documents.columns if name != time]
    return _select(spark, documents, time, role=f.lit(Role.DOCUMENT.value), packed=pack(packed))


def _read_queries(spark: SparkSession, search: SearchView, queries: Input, since: str) -> DataFrame:
    """Return a row for every version, and one more for each that is no deletion, to check its text."""
    stored = search.queries
    deleted = f.coalesce(f.col(quote(stored.deleted)), f.lit(False)) if stored.deleted else f.lit(False)
    roles = [f.lit(role.value) for role in (Role.VERSION, Role.CHECK)]
    given = _select(
        spark,
        queries,
        since,
        role=f.explode(f.when(deleted, f.array(roles[0])).otherwise(f.array(*roles))),
        id=f.when(f.col(quote(stored.id)).isNotNull(), pack([stored.id])),
        text=f.col(quote(stored.query)),
        deleted=deleted,
        packed=pack(list(dict.fromkeys(search.columns.values()))),
    )
    return given.where(f.col("id").isNotNull())


def _select(spark: SparkSession, read: Input, time: str, **given: Column) -> DataFrame:
    """Return what the step is given of rows, and their event time with its watermark."""
    columns = {"time": micros(time), **given}
    filled = [columns.get(name, f.lit(None).cast(kind)).alias(name) for name, kind in _TYPES.items()]
    return spark.table(read.name).select(f.col(quote(time)).alias(_TIME), *filled)


def _open(found: DataFrame, search: SearchView, documents: Input, queries: Input, time: str) -> DataFrame:
    """Return the columns of what was found: the document's, the query's, and what is wrong with a query."""
    opened = found.withColumn("document", unpack(f.col("document"), documents.schema)).withColumn(
        "query", unpack(f.col("query"), _select_types(queries, search.columns.values()))
    )
    own = [
        (f.col("time") if name == time else f.col("document").getField(name)).alias(name)
        for name in documents.columns
    ]
    taken = [f.col("query").getField(column).alias(name) for name, column in search.columns.items()]
    return opened.select(*own, *taken, f.col("error").alias(search.error))


def _select_types(read: Input, names: Iterable[str]) -> StructType:
    wanted = {name.lower() for name in names}
    return StructType([field for field in read.schema.fields if field.name.lower() in wanted])


def describe_search(view: str, search: SearchView) -> State:
    """Return the state of a search."""
    stored = search.queries
    until = None if stored.deleted is None else "the watermark passes their next version or deletion"
    return State(
        view, "documents until the watermark passes them, and the stored queries", (stored.id,), until
    )
