"""Plans and expressions that are read at once, compared with walks over the objects of the JVM."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from kappa_pipelines.analysis.catalyst import (
    Node,
    children_of,
    contains_plan,
    expressions_of,
    find_classes,
    find_views,
    get_plan,
    has_watermark,
    id_of,
    is_streaming,
    kind_of,
    name_of,
    read_plan,
    read_tree,
)

STATEMENTS = [
    "SELECT window(time, '1 hour') AS w, k, count(*) AS n FROM events WHERE v > 1 GROUP BY 1, 2",
    "SELECT a.k, b.v AS `odd\tname\nof two lines` FROM events a JOIN events b ON a.k = b.k AND b.time > a.time",
    "WITH t AS (SELECT k FROM events WHERE k IN (SELECT k FROM rest)) SELECT DISTINCT k FROM t",
    "SELECT window(time, '1 hour', '10 minutes') AS w, max(v + 1) OVER () FROM rest",
    "SELECT x.c AS c, transform(array(v), e -> e + 1) FROM rest LATERAL VIEW explode(array(k)) x AS c",
    "SELECT k, v FROM events UNION ALL SELECT k, -v FROM rest LIMIT 3",
]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session of its own, as other tests set whether sources have names."""
    made = spark.newSession()
    made.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false")
    read = made.readStream.format("rate").load()
    rows = read.selectExpr("value AS k", "value * 2 AS v", "timestamp AS time")
    rows.withWatermark("time", "1 minute").createOrReplaceTempView("events")
    made.sql("SELECT 1L AS k, 2L AS v, now() AS time").createOrReplaceTempView("rest")
    return made


def describe(session: SparkSession, node: Any, *, is_plan: bool) -> tuple[Any, ...]:
    """Return all that is known of a node and the nodes below it."""
    kind, below = kind_of(node), [describe(session, each, is_plan=is_plan) for each in children_of(node)]
    if is_plan:
        own = [describe(session, each, is_plan=False) for each in expressions_of(node)]
        alias = node.alias() if kind == "SubqueryAlias" else ""
        return kind, is_streaming(node), alias, below, own
    named = kind == "AttributeReference" or (kind == "Alias" and node.resolved())
    facts = (name_of(node), id_of(node), has_watermark(node)) if named else ()
    return kind, facts, contains_plan(session, node), below


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_tree_has_what_the_objects_have(session: SparkSession, statement: str) -> None:
    parsed = session._jsparkSession.sessionState().sqlParser().parseQuery(statement)
    for plan in (parsed, get_plan(session.sql(statement))):
        tree = read_tree(session, plan)
        assert isinstance(tree, Node)
        assert describe(session, tree, is_plan=True) == describe(session, plan, is_plan=True)


def test_what_a_tree_lacks_comes_from_its_object(session: SparkSession) -> None:
    tree = read_plan(session.sql(STATEMENTS[0]))
    assert kind_of(tree) == "Aggregate"
    assert tree.groupingExpressions().size() == 2
    assert tree.java.equals(tree)
    assert list(find_views(tree)) == ["events"]


def test_a_deep_expression_is_read_without_recursion(session: SparkSession) -> None:
    node = read_tree(
        session, session._jsparkSession.sessionState().sqlParser().parseExpression("1" + " + 1" * 500)
    )
    depth = 0
    while children_of(node):
        node, depth = children_of(node)[0], depth + 1
    assert depth == 500


def test_functions_that_spark_lacks_have_no_class(session: SparkSession) -> None:
    assert find_classes(session, ["upper", "no_such_function", "current_user"]) == {
        "upper": "org.apache.spark.sql.catalyst.expressions.Upper",
        "current_user": "org.apache.spark.sql.catalyst.expressions.CurrentUser",
    }
