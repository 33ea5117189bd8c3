package kappa.plan;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.SessionWindow;
import org.apache.spark.sql.catalyst.expressions.SparkPartitionID;
import org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughNonJoin$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.types.DataTypes;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Rules that keep filters over sessions above the aggregation that merges them (ADR 94). Spark takes the session of an aggregation for a key like others, and
 * moves a filter over it below, where it sees the session of one row: those out of the filter are then not merged, so that the session is divided.
 */
public final class SessionFilters {
    private SessionFilters() {}

    /** Puts a filter that is always true above each aggregation of sessions, before the plan is optimized: it depends on the task, so Spark moves none across it. */
    public static final class Hold extends Rule<LogicalPlan> {
        @Override
        public LogicalPlan apply(LogicalPlan plan) {
            return plan.transformUpWithSubqueries(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
                @Override
                public boolean isDefinedAt(LogicalPlan found) {
                    return found instanceof Aggregate aggregate && !findSessions(aggregate).isEmpty();
                }

                @Override
                public LogicalPlan apply(LogicalPlan found) {
                    return new Filter(
                            new GreaterThanOrEqual(new SparkPartitionID(), new Literal(0, DataTypes.IntegerType)), found);
                }
            });
        }
    }

    /** Moves filters over the other columns across the filter of `Hold`; Spark's own rule then moves those over keys below the aggregation. */
    public static final class Pass extends Rule<LogicalPlan> {
        @Override
        public LogicalPlan apply(LogicalPlan plan) {
            return plan.transformUp(new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
                @Override
                public boolean isDefinedAt(LogicalPlan found) {
                    return found instanceof Filter filter && isHeld(filter) && !split(filter, true).isEmpty();
                }

                @Override
                public LogicalPlan apply(LogicalPlan found) {
                    Filter filter = (Filter) found;
                    Filter hold = (Filter) filter.child();
                    Filter held = new Filter(hold.condition(), filter(split(filter, true), hold.child()));
                    return filter(split(filter, false), held);
                }
            });
        }
    }

    private static boolean isHeld(Filter filter) {
        return filter.child() instanceof Filter hold && !hold.condition().deterministic();
    }

    /** Return the parts of a condition that may be below the filter of `Hold`, or the others. */
    private static List<Expression> split(Filter filter, boolean isPassed) {
        Set<ExprId> others = findOthers(filter.child());
        List<Expression> found = new ArrayList<>();
        for (Expression part : CollectionConverters.asJava(
                PushPredicateThroughNonJoin$.MODULE$.splitConjunctivePredicates(filter.condition()))) {
            Set<ExprId> read = listColumns(part);
            if ((part.deterministic() && !read.isEmpty() && others.containsAll(read)) == isPassed) {
                found.add(part);
            }
        }
        return found;
    }

    /** Return the columns of an aggregation of sessions, below filters, that are not computed from its session; none of another plan. */
    private static Set<ExprId> findOthers(LogicalPlan plan) {
        LogicalPlan found = plan;
        while (found instanceof Filter filter) {
            found = filter.child();
        }
        Set<ExprId> others = new HashSet<>();
        if (found instanceof Aggregate aggregate && !findSessions(aggregate).isEmpty()) {
            Set<ExprId> sessions = findSessions(aggregate);
            for (NamedExpression column : CollectionConverters.asJava(aggregate.aggregateExpressions())) {
                if (Collections.disjoint(listColumns((Expression) column), sessions)) {
                    others.add(column.exprId());
                }
            }
        }
        return others;
    }

    private static Set<ExprId> findSessions(Aggregate aggregate) {
        Set<ExprId> found = new HashSet<>();
        for (Expression key : CollectionConverters.asJava(aggregate.groupingExpressions())) {
            if (key instanceof AttributeReference column && column.metadata().contains(SessionWindow.marker())) {
                found.add(column.exprId());
            }
        }
        return found;
    }

    private static Set<ExprId> listColumns(Expression expression) {
        Set<ExprId> found = new HashSet<>();
        for (Attribute column : CollectionConverters.asJava(expression.references())) {
            found.add(column.exprId());
        }
        return found;
    }

    private static LogicalPlan filter(List<Expression> parts, LogicalPlan child) {
        return parts.stream().reduce(And::new).<LogicalPlan>map(condition -> new Filter(condition, child)).orElse(child);
    }
}
