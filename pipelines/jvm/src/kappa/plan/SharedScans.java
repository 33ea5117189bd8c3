package kappa.plan;

import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.KnownNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.PlanExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.optimizer.InlineCTE;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Reads a source once where a query has a union of its parts (ADR 104). Python calls these methods.
 *
 * A part selects and filters rows of a source. In place of parts of the same source, each row of it comes once for every part, with the number
 * of the part, and the steps of a part are computed for its rows alone.
 */
public final class SharedScans {
    private static final String PART = "__kappa_part";

    private final Collection<String> sources;

    private SharedScans(Collection<String> sources) {
        this.sources = sources;
    }

    /** Return the rows of a query that reads each of these sources once; null if it reads one of them several times. `sources` are names with blanks between. */
    public static Dataset<Row> share(Dataset<Row> rows, String sources) {
        var classic = (org.apache.spark.sql.classic.Dataset<Row>) rows;
        SharedScans shared = new SharedScans(split(sources));
        LogicalPlan made = shared.mergeAll(inline(classic.queryExecution().analyzed()));
        Map<String, Integer> read = new HashMap<>();
        shared.count(made, read);
        boolean isOnce = read.values().stream().allMatch(count -> count == 1);
        return isOnce ? org.apache.spark.sql.classic.Dataset.ofRows(classic.sparkSession(), made) : null;
    }

    /**
     * Return a plan that a rewrite has made of another, with its common table expressions in place of their names, while sources are leaves: all that
     * it moves stays above them. `sources` are names with blanks between.
     */
    public static LogicalPlan keep(LogicalPlan plan, String sources, Function<LogicalPlan, LogicalPlan> rewrite) {
        List<LogicalPlan> hidden = new ArrayList<>();
        LogicalPlan made = rewrite.apply(new SharedScans(split(sources)).hide(inline(plan), hidden));
        return restore(made, hidden);
    }

    /** Return a plan with its common table expressions in place of their names. */
    private static LogicalPlan inline(LogicalPlan plan) {
        return new InlineCTE(true, false).apply(plan);
    }

    private static Collection<String> split(String names) {
        return List.of(names.split(" "));
    }

    private LogicalPlan hide(LogicalPlan plan, List<LogicalPlan> hidden) {
        if (findSource(plan) == null) {
            return withChildren(plan, child -> hide(child, hidden));
        }
        hidden.add(plan);
        return new CTERelationRef(
                -hidden.size(), true, plan.output(), true, Option.empty(), false, Option.empty(), false);
    }

    private static LogicalPlan restore(LogicalPlan plan, List<LogicalPlan> hidden) {
        return plan instanceof CTERelationRef source
                ? hidden.get((int) -source.cteId() - 1) : withChildren(plan, child -> restore(child, hidden));
    }

    private LogicalPlan mergeAll(LogicalPlan plan) {
        if (findSource(plan) != null) {
            return plan;
        }
        LogicalPlan made = plan instanceof Union union ? merge(union) : plan;
        return made == plan ? withChildren(plan, this::mergeAll) : made;
    }

    private static LogicalPlan withChildren(LogicalPlan plan, Function<LogicalPlan, LogicalPlan> change) {
        List<LogicalPlan> children = new ArrayList<>();
        CollectionConverters.asJava(plan.children()).forEach(child -> children.add(change.apply(child)));
        return plan.withNewChildren(sequence(children));
    }

    private void count(LogicalPlan plan, Map<String, Integer> read) {
        String name = findSource(plan);
        if (name != null) {
            read.merge(name, 1, Integer::sum);
        } else {
            CollectionConverters.asJava(plan.children()).forEach(child -> count(child, read));
        }
    }

    /** Return the source whose rows a plan has, if it is the view of one. */
    private String findSource(LogicalPlan plan) {
        boolean isSource = plan instanceof SubqueryAlias named && named.child() instanceof View && sources.contains(named.alias());
        return isSource ? ((SubqueryAlias) plan).alias() : null;
    }

    /** Return a union in which the parts of the same source are one; the same one if it has just one of each. */
    private LogicalPlan merge(Union union) {
        List<List<LogicalPlan>> parts = new ArrayList<>();
        listParts(union, List.of(), parts);
        Map<Object, List<List<LogicalPlan>>> bySource = new LinkedHashMap<>();
        for (List<LogicalPlan> part : parts) {
            LogicalPlan leaf = part.get(0);
            String source = findSource(leaf);
            bySource.computeIfAbsent(source == null ? part : source, key -> new ArrayList<>()).add(part);
        }
        if (bySource.size() == parts.size()) {
            return union;
        }
        List<LogicalPlan> children = new ArrayList<>();
        bySource.values().forEach(same -> children.add(new Parts(same).build()));
        LogicalPlan made = children.size() == 1 ? children.get(0) : new Union(sequence(children), false, false);
        return made.resolved() ? rename(made, CollectionConverters.asJava(union.output())) : union;
    }

    /** Collect the parts of a union, and of unions in it: each is its steps from what it reads to the union. */
    private void listParts(LogicalPlan plan, List<LogicalPlan> above, List<List<LogicalPlan>> found) {
        List<LogicalPlan> steps = new ArrayList<>(List.of(plan));
        steps.addAll(above);
        boolean isLeaf = findSource(plan) != null || !(plan instanceof Union) && !isStep(plan);
        if (isLeaf) {
            found.add(steps);
        } else {
            CollectionConverters.asJava(plan.children()).forEach(child -> listParts(child, steps, found));
        }
    }

    /** Return a plan with the ids of columns of another, of which it has those at the same places. */
    private static LogicalPlan rename(LogicalPlan plan, List<Attribute> wanted) {
        List<Attribute> given = CollectionConverters.asJava(plan.output());
        List<NamedExpression> columns = new ArrayList<>();
        for (int at = 0; at < wanted.size(); at++) {
            Attribute each = wanted.get(at), own = given.get(at);
            boolean isSame = each.exprId().equals(own.exprId());
            columns.add(isSame ? own : name(own, each, each.exprId()));
        }
        return new Project(sequence(columns), plan);
    }

    private static boolean isStep(LogicalPlan plan) {
        boolean isNamed = plan instanceof SubqueryAlias || plan instanceof View;
        return isNamed || (plan instanceof Project || plan instanceof Filter)
                && CollectionConverters.asJava(plan.expressions()).stream().allMatch(SharedScans::isForOneRow);
    }

    /** Return whether an expression is computed from a row alone, when it is needed: Spark evaluates one in Python for all rows. */
    private static boolean isForOneRow(Expression expression) {
        boolean isPure = expression.deterministic() && !(expression instanceof PythonUDF) && !(expression instanceof PlanExpression);
        return isPure && CollectionConverters.asJava(expression.children()).stream().allMatch(SharedScans::isForOneRow);
    }

    /** The parts of one source, as one plan; or one part of anything. */
    private final class Parts {
        private final List<List<LogicalPlan>> parts;
        private final List<List<Expression>> outputs = new ArrayList<>();
        private LogicalPlan plan;
        private List<Attribute> source, part;

        Parts(List<List<LogicalPlan>> parts) {
            this.parts = parts;
        }

        LogicalPlan build() {
            read(mergeAll(parts.get(0).get(0)));
            for (int number = 0; number < parts.size(); number++) {
                add(number);
            }
            List<Attribute> columns = CollectionConverters.asJava(top(0).output());
            List<NamedExpression> selected = new ArrayList<>();
            for (int at = 0; at < columns.size(); at++) {
                selected.add(name(choose(at), columns.get(at), NamedExpression$.MODULE$.newExprId()));
            }
            return new Project(sequence(selected), plan);
        }

        /** Have each row of what is read once for every part. */
        private void read(LogicalPlan read) {
            plan = read;
            source = new ArrayList<>(CollectionConverters.asJava(read.output()));
            part = List.of();
            if (parts.size() == 1) {
                return;
            }
            part = List.of(new AttributeReference(
                    PART, DataTypes.IntegerType, false, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), sequence(List.of())));
            List<scala.collection.immutable.Seq<Expression>> rows = new ArrayList<>();
            for (int number = 0; number < parts.size(); number++) {
                List<Expression> row = new ArrayList<>(source);
                row.add(new Literal(number, DataTypes.IntegerType));
                rows.add(sequence(row));
            }
            source.replaceAll(SharedScans::copy);
            List<Attribute> output = new ArrayList<>(source);
            output.addAll(part);
            plan = new Expand(sequence(rows), sequence(output), read);
        }

        /** Add the steps of a part to the plan. */
        private void add(int number) {
            List<LogicalPlan> steps = parts.get(number);
            List<Expression> given = new ArrayList<>(source);
            for (int at = 1; at < steps.size() - 1; at++) {
                Map<ExprId, Expression> known = index(steps.get(at - 1), given);
                if (steps.get(at) instanceof Filter filter) {
                    Expression condition = replace(filter.condition(), known);
                    plan = new Filter(part.isEmpty() ? condition : new Or(new Not(isOf(number)), condition), plan);
                } else if (steps.get(at) instanceof Project project) {
                    given = select(project, number, known);
                }
            }
            outputs.add(given);
        }

        private static Map<ExprId, Expression> index(LogicalPlan step, List<Expression> given) {
            Map<ExprId, Expression> known = new HashMap<>();
            for (int at = 0; at < given.size(); at++) {
                known.put(step.output().apply(at).exprId(), given.get(at));
            }
            return known;
        }

        private List<Expression> select(Project project, int number, Map<ExprId, Expression> known) {
            List<Expression> found = new ArrayList<>();
            List<NamedExpression> all = new ArrayList<>(CollectionConverters.asJava(plan.output()));
            for (NamedExpression each : CollectionConverters.asJava(project.projectList())) {
                Expression value = replace(each instanceof Alias alias ? alias.child() : (Expression) each, known);
                if (!(value instanceof Attribute)) {
                    Expression own = part.isEmpty() ? value : new If(isOf(number), value, Literal.create(null, value.dataType()));
                    Alias made = name(own, each.toAttribute(), NamedExpression$.MODULE$.newExprId());
                    all.add(made);
                    value = made.toAttribute();
                }
                found.add(value);
            }
            plan = new Project(sequence(all), plan);
            return found;
        }

        /** Return the value of a column in the rows of all parts. In the plan, a column of one part is NULL in the rows of others. */
        private Expression choose(int column) {
            Expression value = outputs.get(parts.size() - 1).get(column);
            for (int number = parts.size() - 2; number >= 0; number--) {
                Expression other = outputs.get(number).get(column);
                value = other.semanticEquals(value) ? value : new If(isOf(number), other, value);
            }
            boolean canBeNull = false;
            for (int number = 0; number < parts.size(); number++) {
                canBeNull |= top(number).output().apply(column).nullable();
            }
            return value.nullable() && !canBeNull ? new KnownNotNull(value) : value;
        }

        /** Return the last step of a part, below the union. */
        private LogicalPlan top(int number) {
            List<LogicalPlan> steps = parts.get(number);
            return steps.get(steps.size() - 2);
        }

        private Expression isOf(int number) {
            return new EqualTo(part.get(0), new Literal(number, DataTypes.IntegerType));
        }
    }

    private static Attribute copy(Attribute column) {
        return new AttributeReference(
                column.name(), column.dataType(), column.nullable(), column.metadata(), NamedExpression$.MODULE$.newExprId(), sequence(List.of()));
    }

    private static Alias name(Expression value, Attribute like, ExprId id) {
        return new Alias(value, like.name(), id, sequence(List.of()), Option.apply(like.metadata()), sequence(List.of()));
    }

    private static Expression replace(Expression expression, Map<ExprId, Expression> known) {
        if (expression instanceof AttributeReference column) {
            return known.getOrDefault(column.exprId(), column);
        }
        List<Expression> children = new ArrayList<>();
        CollectionConverters.asJava(expression.children()).forEach(child -> children.add(replace(child, known)));
        return expression.withNewChildren(sequence(children));
    }

    private static <T> scala.collection.immutable.Seq<T> sequence(List<T> items) {
        return CollectionConverters.asScala(items).toList();
    }
}
