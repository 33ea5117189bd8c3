"""The labels of the result of a query, from its syntax tree. Each metric and label in it is checked.

Rules for labels: the chapters on operators and aggregation of Prometheus' documentation on querying.
"""

from collections.abc import Collection, Mapping

import promql_parser as promql

from kappa_monitoring.errors import MonitoringError

ATTACHED = frozenset({"instance", "job", "pod"})
"""Labels that Prometheus attaches when it scrapes."""
_SETS = ("and", "unless")
_PICKS = ("topk", "bottomk")
Series = Mapping[str, Collection[str]]


def find_labels(query: str, series: Series) -> frozenset[str]:
    """Return the labels of a query's result; raise MonitoringError if no series has the name."""
    return _visit(promql.parse(query), series)


def _visit(node: object, series: Series) -> frozenset[str]:
    match node:
        case promql.VectorSelector():
            return _select(node, series)
        case promql.MatrixSelector():
            return _select(node.vector_selector, series)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            return _visit(node.expr, series)
        case promql.AggregateExpr():
            return _aggregate(node, series)
        case promql.BinaryExpr():
            return _combine(node, series)
        case promql.Call():
            labels: frozenset[str] = frozenset().union(*(_visit(each, series) for each in node.args))
            return labels - {"le"} if node.func.name == "histogram_quantile" else labels
    return frozenset()


def _select(node: promql.VectorSelector, series: Series) -> frozenset[str]:
    name = node.name or ""
    if name not in series:
        raise MonitoringError(
            f"no code and no rule declares {name or 'a metric without a name'}; correct the name"
        )
    labels = frozenset(series[name]) | ATTACHED
    _check({matcher.name for matcher in node.matchers.matchers}, labels, name)
    return labels


def _aggregate(node: promql.AggregateExpr, series: Series) -> frozenset[str]:
    inner = _visit(node.expr, series)
    if node.modifier is None:
        return inner if str(node.op) in _PICKS else frozenset()
    named = frozenset(node.modifier.labels)
    _check(named, inner, str(node))
    return named if node.modifier.type == promql.AggModifierType.By else inner - named


def _combine(node: promql.BinaryExpr, series: Series) -> frozenset[str]:
    left, right = _visit(node.lhs, series), _visit(node.rhs, series)
    modifier = node.modifier
    if modifier is None or modifier.matching is None:
        return left if str(node.op) in _SETS else left | right
    matching = frozenset(modifier.matching.labels)
    _check(matching, left & right, str(node))
    if str(node.op) in _SETS:
        return left
    if modifier.group_labels is not None and modifier.card == promql.VectorMatchCardinality.ManyToOne:
        _check(set(modifier.group_labels), right, str(node))
        return left | frozenset(modifier.group_labels)
    return (
        matching if modifier.matching.type == promql.LabelModifierType.Include else (left & right) - matching
    )


def _check(used: Collection[str], present: Collection[str], where: str) -> None:
    unknown = sorted(set(used) - set(present))
    if unknown:
        raise MonitoringError(
            f"{where} has no label {', '.join(unknown)}; it has {', '.join(sorted(present))}"
        )
