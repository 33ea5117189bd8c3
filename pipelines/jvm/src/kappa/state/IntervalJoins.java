package kappa.state;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import kappa.plan.SharedScans;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases$;
import org.apache.spark.sql.catalyst.analysis.EliminateView$;
import org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper$;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet$;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.ColumnPruning$;
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The join of two streams within a time interval in the plan of a query, as a step that keeps each row once (ADR 102). Python calls these
 * methods.
 */
public final class IntervalJoins {
    /** Operators without state that may be beside the join. Spark moves predicates and selections of columns to the rows of the join. */
    private static final Set<String> STATELESS = Set.of(
            "Project", "Filter", "Generate", "CollectMetrics", "EventTimeWatermark", "MapInPandas", "MapInArrow", "BatchEvalPython",
            "ArrowEvalPython", "SubqueryAlias", "View", "Union");

    private static final String TIME = "__kappa_time", VERSION = "__kappa_version", EVENT = "__kappa_event";
    private static final long MICROS = 1000;
    private static final int PASSES = 10;

    /** A watermark in milliseconds, so that those of both sides can be compared with it. */
    private static final long ANY_WATERMARK = 1L << 40;

    private final LogicalPlan plan;
    private Join join;
    private List<Expression> leftKeys, rightKeys;
    private Attribute leftTime, rightTime;
    private long least, greatest;

    private IntervalJoins(LogicalPlan plan) {
        this.plan = plan;
    }

    /** Return why a query with a join of two streams has a join of Spark; null if it is a step, or there is no such join. `shared` as below. */
    public static String explain(Dataset<Row> rows, String shared) {
        LogicalPlan plan = SharedScans.keep(analyze(rows), shared, IntervalJoins::simplify);
        return findJoins(plan).isEmpty() ? null : new IntervalJoins(plan).read();
    }

    /**
     * Return the rows of a query with its join as a step; null if it has none that can be one. `chunkSize` is in bytes. `shared` are the sources that
     * the query reads several times, names with blanks between: their plans stay alike.
     */
    public static Dataset<Row> replace(Dataset<Row> rows, int chunkSize, String shared) {
        IntervalJoins found = new IntervalJoins(SharedScans.keep(analyze(rows), shared, IntervalJoins::simplify));
        if (found.read() != null) {
            return null;
        }
        LogicalPlan made = replace(found.plan, found.join, found.build(rows, chunkSize));
        return org.apache.spark.sql.classic.Dataset.ofRows(Plans.classic(rows).sparkSession(), made);
    }

    private static LogicalPlan analyze(Dataset<Row> rows) {
        return Plans.classic(rows).queryExecution().analyzed();
    }

    /** Return a plan in which each side of a join has the columns that are needed, and predicates are where they can be computed first. */
    private static LogicalPlan simplify(LogicalPlan analyzed) {
        LogicalPlan plan = EliminateView$.MODULE$.apply(EliminateSubqueryAliases$.MODULE$.apply(analyzed));
        for (int pass = 0; pass < PASSES; pass++) {
            LogicalPlan next = ColumnPruning$.MODULE$.apply(PushDownPredicates$.MODULE$.apply(plan));
            if (next.fastEquals(plan)) {
                break;
            }
            plan = next;
        }
        return plan;
    }

    /** Return the joins of two streams. */
    private static List<Join> findJoins(LogicalPlan plan) {
        List<Join> found = new ArrayList<>();
        CollectionConverters.asJava(plan.children()).forEach(child -> found.addAll(findJoins(child)));
        if (plan instanceof Join each && each.left().isStreaming() && each.right().isStreaming()) {
            found.add(each);
        }
        return found;
    }

    /** Read the one join; return why it cannot be a step. */
    private String read() {
        List<Join> joins = findJoins(plan);
        if (joins.size() != 1) {
            return "the query has several joins of streams";
        }
        join = joins.get(0);
        String other = findOther(plan);
        if (other != null) {
            return "the query has another operator, " + other;
        }
        if (!join.joinType().equals(Inner$.MODULE$)) {
            return "it is no inner join";
        }
        var keys = ExtractEquiJoinKeys$.MODULE$.unapply(join);
        if (keys.isEmpty()) {
            return "it has no equal keys";
        }
        leftKeys = CollectionConverters.asJava(keys.get()._2());
        rightKeys = CollectionConverters.asJava(keys.get()._3());
        for (int each = 0; each < leftKeys.size(); each++) {
            DataType kind = leftKeys.get(each).dataType();
            if (!kind.sameType(rightKeys.get(each).dataType()) || !UnsafeRowUtils$.MODULE$.isBinaryStable(kind)) {
                return "equal values of its key may have different bytes";
            }
        }
        return readInterval();
    }

    /** Return an operator of streams other than the join that may have state; null if there is none. */
    private String findOther(LogicalPlan plan) {
        for (LogicalPlan child : CollectionConverters.asJava(plan.children())) {
            String found = findOther(child);
            if (found != null) {
                return found;
            }
        }
        boolean isLeaf = plan.children().isEmpty();
        boolean isStatic = !plan.isStreaming() || plan instanceof Join && (plan == join || !isOfStreams((Join) plan));
        String kind = plan.getClass().getSimpleName();
        return isLeaf || isStatic || STATELESS.contains(kind) ? null : kind;
    }

    private static boolean isOfStreams(Join join) {
        return join.left().isStreaming() && join.right().isStreaming();
    }

    private String readInterval() {
        leftTime = findTime(join.left());
        rightTime = findTime(join.right());
        if (leftTime == null || rightTime == null) {
            return "a side has no event time, or several";
        }
        Long left = findBound(join.left(), rightTime), right = findBound(join.right(), leftTime);
        if (left == null || right == null) {
            return "its condition does not limit the distance of the event times in both directions";
        }
        greatest = (ANY_WATERMARK - left) * MICROS;
        least = (right - ANY_WATERMARK) * MICROS;
        return null;
    }

    private static Attribute findTime(LogicalPlan side) {
        List<Attribute> found = new ArrayList<>();
        for (Attribute each : CollectionConverters.asJava(side.output())) {
            if (each.metadata().contains(EventTimeWatermark$.MODULE$.delayKey())) {
                found.add(each);
            }
        }
        return found.size() == 1 && found.get(0).dataType().equals(DataTypes.TimestampType) ? found.get(0) : null;
    }

    /** Return the greatest event time, in milliseconds, of rows of a side that no row of the other side after the watermark can match. */
    private Long findBound(LogicalPlan side, Attribute other) {
        Option<Object> found = StreamingJoinHelper$.MODULE$.getStateValueWatermark(
                side.outputSet(), AttributeSet$.MODULE$.apply(other), join.condition(), Option.apply(ANY_WATERMARK));
        return found.isEmpty() ? null : (Long) found.get();
    }

    /** Return what is in place of the join: the pairs of the step that satisfy the rest of the condition. */
    private LogicalPlan build(Dataset<Row> rows, int chunkSize) {
        DataType left = packColumns(join.left()).dataType(), right = packColumns(join.right()).dataType();
        LogicalPlan lefts = buildSide(join.left(), leftKeys, leftTime, Literal.create(null, right), packColumns(join.left()));
        LogicalPlan rights = buildSide(join.right(), rightKeys, rightTime, packColumns(join.right()), Literal.create(null, left));
        Dataset<Row> both = org.apache.spark.sql.classic.Dataset.ofRows(
                Plans.classic(rows).sparkSession(), new Union(Plans.sequence(List.of(lefts, rights)), false, false));
        StructType version = Plans.structOf(both, 2), event = Plans.structOf(both, 3);
        IntervalJoin step = new IntervalJoin(least, greatest, event.length(), version.length(), chunkSize);
        LogicalPlan pairs = unpack(analyze(Plans.transform(both, step, Plans.merge(event, version), version, event)));
        Option<Expression> rest = ExtractEquiJoinKeys$.MODULE$.unapply(join).get()._4();
        return rest.isEmpty() ? pairs : new Filter(rest.get(), pairs);
    }

    /** Return the rows of a side with what the step needs. A row without a key or an event time has no pair. */
    private static LogicalPlan buildSide(LogicalPlan side, List<Expression> keys, Attribute time, Expression version, Expression event) {
        List<Expression> parts = new ArrayList<>();
        Expression known = new IsNotNull(time);
        for (Expression each : keys) {
            known = new And(known, new IsNotNull(each));
            parts.add(Literal.create("key" + parts.size() / 2, DataTypes.StringType));
            parts.add(each);
        }
        List<NamedExpression> columns = List.of(
                Plans.alias(new CreateNamedStruct(Plans.sequence(parts)), Plans.KEY), Plans.alias(time, TIME, Option.apply(time.metadata())),
                Plans.alias(version, VERSION), Plans.alias(event, EVENT));
        return new Project(Plans.sequence(columns), new Filter(known, side));
    }

    private static Expression packColumns(LogicalPlan side) {
        List<Expression> parts = new ArrayList<>();
        for (Attribute each : CollectionConverters.asJava(side.output())) {
            parts.add(Literal.create(each.name(), DataTypes.StringType));
            parts.add(each);
        }
        return new CreateNamedStruct(Plans.sequence(parts));
    }

    /** Return the columns of both sides, as the plan above the join refers to them. */
    private LogicalPlan unpack(LogicalPlan made) {
        List<NamedExpression> columns = new ArrayList<>();
        for (Attribute each : CollectionConverters.asJava(join.output())) {
            Expression found = new GetStructField(made.output().head(), columns.size(), Option.empty());
            columns.add(new Alias(
                    found, each.name(), each.exprId(), each.qualifier(), Option.apply(each.metadata()), Plans.sequence(List.of())));
        }
        return new Project(Plans.sequence(columns), made);
    }

    /** Return a plan with another node in place of one. */
    private static LogicalPlan replace(LogicalPlan plan, LogicalPlan old, LogicalPlan made) {
        if (plan == old) {
            return made;
        }
        List<LogicalPlan> children = new ArrayList<>();
        CollectionConverters.asJava(plan.children()).forEach(child -> children.add(replace(child, old, made)));
        return plan.withNewChildren(Plans.sequence(children));
    }
}
