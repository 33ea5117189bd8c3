package kappa.state;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CurrentDate;
import org.apache.spark.sql.catalyst.expressions.CurrentTimestampLike;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LocalTimestamp;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Takes the aggregates out of Spark's plan of them, `describe(…).groupBy(time).agg(…)`: analysed, and optimised, as only the optimizer replaces
 * functions that Spark evaluates by others. The expression of a plan without aggregates is taken out in the same way.
 */
final class Compiler {
    private final StructType schema;
    private final LogicalPlan analyzed;
    private final LogicalPlan optimized;

    Compiler(Dataset<Row> aggregated) {
        QueryExecution execution = ((org.apache.spark.sql.classic.Dataset<Row>) aggregated).queryExecution();
        schema = aggregated.schema();
        analyzed = execution.analyzed();
        optimized = execution.optimizedPlan();
    }

    /** Return why the aggregates cannot be computed here; null if they can. */
    String explain() {
        for (Expression each : expressionsOf(analyzed)) {
            if (!each.deterministic()) {
                return "an aggregate is not deterministic";
            }
            // Spark takes the time of the batch; here it would be the time of the start.
            if (contains(each, CurrentTimestampLike.class) || contains(each, CurrentDate.class) || contains(each, LocalTimestamp.class)) {
                return "an aggregate uses the current time";
            }
        }
        if (!(optimized instanceof Aggregate found) || !isPlain(found.child())) {
            return "Spark computes an aggregate in several steps";
        }
        for (Expression each : expressionsOf(found)) {
            if (contains(each, PythonUDF.class)) {
                return "an aggregate calls Python";
            }
            if (findFunctions(each).stream().anyMatch(AggregateExpression::isDistinct)) {
                return "an aggregate is DISTINCT";
            }
        }
        return null;
    }

    /** Return whether there are only projections between the aggregates and the relation. */
    private static boolean isPlain(LogicalPlan plan) {
        return plan instanceof LogicalRDD || plan instanceof Project project && isPlain(project.child());
    }

    private static LogicalPlan findRelation(LogicalPlan plan) {
        return CollectionConverters.asJava(plan.children()).isEmpty() ? plan : findRelation(plan.children().head());
    }

    Aggregates compile() {
        List<Expression> results = new ArrayList<>();
        List<AggregateExpression> functions = new ArrayList<>();
        for (Expression each : expressionsOf(optimized)) {
            Expression computed = inline(each, ((Aggregate) optimized).child());
            functions.addAll(findFunctions(computed));
            results.add(replace(computed));
        }
        return new Aggregates(
                inputs(),
                functions.toArray(new AggregateExpression[0]),
                results.toArray(new Expression[0]));
    }

    /** Return the columns of the relation. */
    Attribute[] inputs() {
        return CollectionConverters.asJava(findRelation(analyzed).output()).toArray(new Attribute[0]);
    }

    /** Return the one expression of a plan `describe(…).select(…)`, over the columns of the relation. */
    Expression compileColumn() {
        return strip(inline((Expression) ((Project) optimized).projectList().head(), ((Project) optimized).child()));
    }

    private static Expression strip(Expression named) {
        return named instanceof Alias alias ? alias.child() : named;
    }

    /** Return the columns of the aggregates. */
    StructType output() {
        StructType made = new StructType();
        for (StructField each : List.of(schema.fields()).subList(1, schema.length())) {
            made = made.add(each);
        }
        return made;
    }

    /** Return the aggregates of a plan; its first column is the one by which it groups. */
    private static List<Expression> expressionsOf(LogicalPlan plan) {
        List<Expression> found = new ArrayList<>();
        for (NamedExpression each : CollectionConverters.asJava(((Aggregate) plan).aggregateExpressions())) {
            found.add((Expression) each);
        }
        return found.subList(1, found.size());
    }

    /** Return an expression over the relation, with what projections below compute in place of their columns. */
    private static Expression inline(Expression expression, LogicalPlan below) {
        if (!(below instanceof Project project)) {
            return expression;
        }
        Map<ExprId, Expression> computed = new HashMap<>();
        for (NamedExpression each : CollectionConverters.asJava(project.projectList())) {
            if (each instanceof Alias alias) {
                computed.put(alias.exprId(), alias.child());
            }
        }
        return inline(replace(expression, each -> each instanceof Attribute column ? computed.get(column.exprId()) : null), project.child());
    }

    private static List<AggregateExpression> findFunctions(Expression expression) {
        List<AggregateExpression> found = new ArrayList<>();
        if (expression instanceof AggregateExpression function) {
            found.add(function);
        } else {
            CollectionConverters.asJava(expression.children()).forEach(child -> found.addAll(findFunctions(child)));
        }
        return found;
    }

    /** Return an expression with the values of functions in their place. */
    private static Expression replace(Expression expression) {
        return replace(expression, each -> each instanceof AggregateExpression function ? Aggregates.valueOf(function) : null);
    }

    /** Return an expression with other ones in place of parts of it; null leaves a part. */
    private static Expression replace(Expression expression, Function<Expression, Expression> other) {
        Expression replaced = other.apply(expression);
        if (replaced != null) {
            return replaced;
        }
        List<Expression> children = new ArrayList<>();
        CollectionConverters.asJava(expression.children()).forEach(child -> children.add(replace(child, other)));
        return expression.withNewChildren(Plans.sequence(children));
    }

    private static boolean contains(Expression expression, Class<?> kind) {
        return kind.isInstance(expression)
                || CollectionConverters.asJava(expression.children()).stream().anyMatch(child -> contains(child, kind));
    }
}
