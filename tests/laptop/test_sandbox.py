"""The SQL of tenants: hostile statements are refused with their place and reason, and all SQL of examples, docs and tests is not.

`hostile_sql.yaml` has the statements. Spark's own list of functions, with its examples, completes both sides.
"""

# ruff: noqa: S608 - the statements are what is tested
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from kappa_crds import API_VERSION
from kappa_crds.reasons import Reason
from kappa_crds.revision import PYTHON_VARIABLE
from kappa_crds.view import View
from kappa_pipelines.errors import SpecError
from kappa_pipelines.laptop.console import FAILED
from kappa_pipelines.laptop.revision import build_local_revision
from kappa_pipelines.laptop.session import start_spark
from kappa_pipelines.plan.compile import compile_revision
from kappa_pipelines.plan.views import define_views
from kappa_pipelines.sandbox import rules
from kappa_pipelines.sandbox.check import Place, check_query, parse_expression
from kappa_pipelines.transforms.sketches.functions import expand_calls
from lab.paths import REPOSITORY
from laptop.commands import kappa
from laptop.test_streams import SOURCES

CORPUS: list[dict[str, str]] = yaml.load(
    Path(__file__).with_name("hostile_sql.yaml").read_text(), yaml.CSafeLoader
)
_OTHER_SQL = re.compile(
    r"test_sandbox\.py|(test_(?:cdc|connect|outbox)\w*|lab/(?:postgres|mariadb)|demo/shop/\w+|bench/cdc\w*|e2e/ware|integration/captures|recorded/(?:debezium|mariadb))\.py"
)
"""Hostile SQL, and SQL of databases."""
_EVENTS = {"from": "bids", "key": ["auction"], "time": "ts"}
_STEPS = {"steps": "x y", "define": {"x": "price > 1"}, "measures": {"n": "count(*)"}, "within": "1h"}


def build_view(field: str, sql: str) -> dict[str, Any]:
    """Return a view with the SQL in a field; an expression has the name x."""
    corrected = {"lateRecords": {"correct": {"after": ["1h"]}}}
    kind, _, part = field.partition(".")
    views: dict[str, dict[str, Any]] = {
        "sql": {"sql": sql},
        "window": {"window": {**_EVENTS, "tumbling": "1h", part: {"x": sql}}},
        "corrected": {"window": {**_EVENTS, "tumbling": "1h", part: {"x": sql}, **corrected}},
        "sliding": {"sliding": {**_EVENTS, "length": "1h", part: {"x": sql}}},
        "pattern": {"pattern": {**_EVENTS, **_STEPS, part: {"x": sql}}},
    }
    return {"name": "hostile", **views[kind], "allowUnboundedState": True}


def build_manifest(*views: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "sources": SOURCES,
        "views": list(views),
        "sinks": [{"name": "out", "from": views[-1]["name"], "kafka": {"topic": "out"}}],
    }
    return {"apiVersion": API_VERSION, "kind": "Pipeline", "metadata": {"name": "p"}, "spec": spec}


def compile_views(*views: dict[str, Any]) -> None:
    revision = build_local_revision(build_manifest(*views))
    compile_revision(start_spark(revision), revision)


@pytest.fixture(scope="module")
def sources(spark: SparkSession) -> None:
    """Define the sources, once for all statements."""
    compile_views(build_view("sql", "SELECT 1 AS x FROM bids"))


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case["sql"][:60])
def test_hostile_sql_is_refused_with_its_place_and_reason(
    spark: SparkSession, sources: None, case: dict[str, str]
) -> None:
    field = case.get("field", "sql")
    spec = build_local_revision(build_manifest(build_view(field, case["sql"]))).spec
    with pytest.raises(SpecError) as refused:
        define_views(spark, spec)
    assert refused.value.reason == case.get("reason", Reason.SQL_REFUSED), refused.value.message
    assert refused.value.message.startswith("view 'hostile', " if field != "sql" else "view 'hostile'")
    assert case["words"] in refused.value.message
    assert case.get("at", "") in refused.value.message
    assert spark._jvm.java.lang.System.getProperty("kappa.attack") is None  # type: ignore[union-attr]


def test_the_corpus_is_large_enough() -> None:
    assert len(CORPUS) >= 80


def test_validate_refuses_the_same(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    view = build_view("sql", "SELECT *\nFROM text.`/etc/passwd`")
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(build_manifest(view)))
    assert kappa("validate", [f"-f{tmp_path / 'p.yaml'}"]) == FAILED
    refusal = "pipeline/p: SqlRefused: view 'hostile', line 2, column 6: text./etc/passwd cannot be read"
    assert refusal in capsys.readouterr().out


def test_variables_of_the_environment_are_text(spark: SparkSession) -> None:
    compile_views(build_view("sql", "SELECT '${env:PATH} ${system:user.home}' AS x FROM bids"))
    expected = "${env:PATH} ${system:user.home}"
    assert start_spark(
        build_local_revision(build_manifest(build_view("sql", "SELECT 1 AS x FROM bids")))
    ).sql(f"SELECT '{expected}' AS x").collect() == [(expected,)]


def test_views_that_double_their_relations_are_refused_before_they_are_analysed(spark: SparkSession) -> None:
    doubling = [{"name": "v0", "sql": "SELECT id FROM bids"}]
    doubling += [
        {"name": f"v{n}", "sql": f"SELECT a.id FROM v{n - 1} a JOIN v{n - 1} b ON a.id = b.id"}
        for n in range(1, 12)
    ]
    with pytest.raises(SpecError, match="view 'v10': it reads 1024 relations") as refused:
        compile_views(*({**view, "allowUnboundedState": True} for view in doubling))
    assert refused.value.reason is Reason.SQL_REFUSED


def test_tables_of_with_that_double_are_refused(spark: SparkSession) -> None:
    tables = ["t0 AS (SELECT 1 AS x)"]
    tables += [f"t{n} AS (SELECT a.x FROM t{n - 1} a, t{n - 1} b)" for n in range(1, 40)]
    with pytest.raises(SpecError, match=r"it reads 5\.49756e\+11 relations"):
        compile_views(build_view("sql", f"WITH {', '.join(tables)} SELECT x FROM t39"))


@pytest.mark.chaos  # eight seconds; `make test` has other statements that are too large
def test_a_statement_of_too_many_parts_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SpecError, match="more than 10000 parts"):
        compile_views(build_view("sql", f"SELECT array({', '.join(['1'] * 10_000)}) AS x FROM bids"))


# Ten seconds for a parenthesis alone.
@pytest.mark.parametrize("part", [pytest.param("(", marks=pytest.mark.chaos), "abs(", "array("])
def test_deep_nesting_is_an_error_of_the_view(spark: SparkSession, part: str) -> None:
    with pytest.raises(SpecError) as refused:
        compile_views(build_view("sql", f"SELECT {part * 5000}1{')' * 5000} AS x FROM bids"))
    assert refused.value.message.startswith("view 'hostile'")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, user FROM (SELECT id, bidder AS user FROM bids)",
        "WITH top AS (SELECT * FROM bids) SELECT t.* FROM top t",
        "SELECT /*+ BROADCAST(n) */ b.* FROM bids b JOIN (VALUES (1), (2)) AS n(id) ON n.id = b.id",
        "SELECT sequence(1, 10) AS s, repeat('x', 5) AS r, round(price, 2) AS p FROM bids",
        "SELECT id, coalesce(price, 100000) AS p FROM bids",
        "SELECT sequence(TIMESTAMP'2026-01-01', TIMESTAMP'2026-12-01', INTERVAL 1 MONTH) AS s FROM bids",
        "SELECT window(ts, '1 day', '1 minute') AS w, count(*) AS n FROM bids GROUP BY window(ts, '1 day', '1 minute')",
        "SELECT * FROM bids LATERAL VIEW explode(array(1, 2)) AS x",
        "SELECT id, x FROM bids, LATERAL (SELECT id + 1 AS x)",
        "FROM bids |> WHERE id > 5 |> EXTEND upper(bidder) AS u |> SELECT id, u",
        "SELECT * EXCEPT (price) FROM bids",
        "SELECT xpath_string(bidder, '/a') AS x, from_json(bidder, 'a INT').a AS y FROM bids",
        "SELECT id FROM bids -- text.`/etc/passwd` and reflect(1)",
        "SELECT 'SELECT * FROM text.`/x`' AS t FROM bids;",
    ],
)
def test_harmless_sql_is_not_refused(spark: SparkSession, sql: str) -> None:
    compile_views(build_view("sql", sql))


def list_written() -> Iterator[tuple[str, str]]:
    """Yield the SQL of all manifests, docs and tests of the repository, with its file and field."""
    for file in sorted(REPOSITORY.rglob("*")):
        parts = file.relative_to(REPOSITORY).parts
        if parts[0].startswith(".") or "node_modules" in parts or file.name.startswith("hostile_"):
            continue
        if file.suffix in (".yaml", ".kappatest"):
            yield from _find_sql(file, file.read_text())
        elif file.suffix == ".md":
            for language, block in re.findall(r"```(yaml|sql)\n(.*?)```", file.read_text(), re.DOTALL):
                yield from [(str(file), block)] if language == "sql" else _find_sql(file, block)
        elif file.suffix == ".py" and parts[0] == "tests" and not _OTHER_SQL.search(file.as_posix()):
            for _, sql in re.findall(r"""(["'])((?:SELECT|WITH) [^"'{}\\]*)\1""", file.read_text()):
                yield str(file), sql


def _find_sql(file: Path, text: str) -> Iterator[tuple[str, str]]:
    try:
        documents = list(yaml.load_all(text, yaml.CSafeLoader))
    except yaml.YAMLError:  # a template of Helm, or a part of a manifest
        return
    pending: list[Any] = list(documents)
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            if isinstance(sql := value.get("sql"), str) and sql:
                yield str(file), sql
            pending.extend(value.values())


def test_the_sql_of_examples_docs_and_tests_is_not_refused(spark: SparkSession) -> None:
    refused, count = [], 0
    for file, sql in list_written():
        try:
            check_query(spark, Place(file), _expand(sql).strip().rstrip(";"), {})
            count += 1
        except SpecError as error:
            refused += [f"{error.message}: {sql}"] if error.reason is Reason.SQL_REFUSED else []
        except ParseException:  # not a whole statement
            continue
    assert refused == []
    assert count > 100


def _expand(sql: str) -> str:
    return str(expand_calls(View(name="v", sql=sql)).sql)


@cache
def list_spark_functions() -> dict[str, tuple[str, list[str]]]:
    """Return Spark's functions, each with its class and the statements of its examples."""
    spark = SparkSession.active()
    analysis: Any = spark._jvm.org.apache.spark.sql.catalyst.analysis  # type: ignore[union-attr]
    found = {}
    for registry in (analysis.FunctionRegistry.builtin(), analysis.TableFunctionRegistry.builtin()):
        names = registry.listFunction()
        for index in range(names.size()):
            info = registry.lookupFunction(names.apply(index)).get()
            statements = re.findall(r"> (SELECT .*?);\s*$", info.getExamples(), re.MULTILINE)
            found[names.apply(index).funcName()] = (info.getClassName(), statements)
    return found


def test_every_function_of_spark_is_allowed_or_refused(spark: SparkSession) -> None:
    allowed, refused = rules.list_functions() | rules.list_names("tables"), rules.list_refused()
    assert allowed | set(refused) == {*list_spark_functions(), "prev"}
    assert allowed & set(refused) == set()


def test_no_allowed_function_has_the_class_of_a_refused_one(spark: SparkSession) -> None:
    known, refused = list_spark_functions(), rules.list_refused()
    classes = {known[name][0] for name in refused}
    assert [name for name in known if name not in refused and known[name][0] in classes] == []


@pytest.mark.chaos  # 9 s; changes only with the version of Spark
def test_the_examples_of_sparks_functions_are_judged_by_their_function(spark: SparkSession) -> None:
    wrong = []
    for name, (_, statements) in list_spark_functions().items():
        for sql in statements:
            is_refused = re.search(rf"\b({'|'.join(rules.list_refused())})\(", sql.lower()) is not None
            try:
                check_query(spark, Place(name), sql, {})
            except SpecError as error:
                if not is_refused:
                    wrong.append(error.message)
            else:
                if is_refused:
                    wrong.append(f"not refused: {sql}")
    assert wrong == []


@pytest.mark.parametrize("ddl", ["k INT DEFAULT version()", "k INT GENERATED ALWAYS AS (version())"])
def test_a_schema_has_no_expressions(spark: SparkSession, ddl: str) -> None:
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        StructType.fromDDL(ddl)


def test_an_expression_is_parsed_once_and_named_by_its_field(spark: SparkSession) -> None:
    assert parse_expression(spark, "view 'v', x", "1 + 1") is parse_expression(spark, "view 'v', x", "1 + 1")


@pytest.mark.parametrize(
    ("views", "named"),
    [
        ([{"name": "py", "python": {"function": "m:f", "reads": ["bids"]}}], "view 'py' (python)"),
        (
            [
                {
                    "name": "fold",
                    "projection": {
                        "from": "bids",
                        "key": ["id"],
                        "sequence": "auction",
                        "event": "bidder",
                        "evolve": "m:f",
                    },
                }
            ],
            "view 'fold' (projection)",
        ),
    ],
)
def test_python_is_refused_where_it_is_not_allowed(
    views: list[dict[str, Any]], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, "false")
    with pytest.raises(SpecError) as refused:
        build_local_revision(build_manifest(*views))
    assert refused.value.reason is Reason.PYTHON_FORBIDDEN
    assert named in refused.value.message
