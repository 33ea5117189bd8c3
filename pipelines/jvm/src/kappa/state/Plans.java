package kappa.state;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Pmod;
import org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers$;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.TransformWithState;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The plans of operators with state in the JVM. Python calls these methods. */
public final class Plans {
    /** The name of the one column of a plan, a struct. */
    public static final String ROW = "__kappa_row";

    /** The number of shards. It is part of checkpoints. */
    static final int SHARDS = 1024;

    private static final String SHARD = "__kappa_shard";
    static final String KEY = "__kappa_key";

    private Plans() {}

    /** Return a relation to compile aggregates over. The optimizer does not know that it has no rows. */
    public static Dataset<Row> describe(SparkSession session, StructType columns) {
        return session.createDataFrame(new JavaSparkContext(session.sparkContext()).<Row>emptyRDD(), columns.asNullable());
    }

    /** Return the output of a sliding window over rows of a key, a time and an event. */
    public static Dataset<Row> slide(Dataset<Row> rows, Dataset<Row> aggregated, long length) {
        StructType event = structOf(rows, 2);
        Compiler compiler = new Compiler(aggregated);
        Sliding step = new Sliding(length, event.length(), compiler.compile());
        return transform(rows, step, merge(event, compiler.output()), null, event);
    }

    /** Return why aggregates cannot be computed beside Spark's own plan; null if they can. */
    public static String explainAggregates(Dataset<Row> aggregated) {
        return new Compiler(aggregated).explain();
    }

    /** Return the output of an as-of join over rows of a key, a time, a version and an event, of which one is NULL. */
    public static Dataset<Row> joinAsOf(Dataset<Row> rows, long maxAge, boolean keepsUnmatched) {
        StructType version = structOf(rows, 2), event = structOf(rows, 3);
        AsOf step = new AsOf(maxAge < 0 ? Step.NEVER : maxAge, keepsUnmatched, event.length(), version);
        return transform(rows, step, merge(event, version.asNullable()), version, event);
    }

    /** Return the output of a step of tables over rows whose last column is their key as bytes, as Spark expects what it groups by. */
    public static Dataset<Row> runTableStep(Dataset<Row> rows, String step, String output) {
        StructType columns = rows.schema();
        int order = List.of(columns.fieldNames()).indexOf("order");
        boolean hasVersions = order >= 0 && columns.fields()[order].dataType().equals(DataTypes.StringType);
        TableStep processor = switch (step) {
            case "follow" -> new Follow(hasVersions);
            case "match" -> new Match(hasVersions, false);
            case "inner match" -> new Match(hasVersions, true);
            case "pair" -> new Pair();
            case "find" -> new Find(hasVersions);
            default -> throw new IllegalArgumentException("no step " + step);
        };
        LogicalPlan plan = classic(rows).queryExecution().analyzed();
        List<Attribute> given = new ArrayList<>(CollectionConverters.asJava(plan.output()));
        Attribute key = given.remove(given.size() - 1);
        return transform(rows, plan, key, given, Encoders.BINARY(), processor, TimeMode.None(), StructType.fromDDL(output));
    }

    /** Return the output of a step over rows of a key, a time, a version where there are any, and an event. */
    static Dataset<Row> transform(Dataset<Row> rows, Step step, StructType output, StructType version, StructType event) {
        LogicalPlan sharded = addShard(classic(rows).queryExecution().analyzed());
        List<Attribute> columns = new ArrayList<>(CollectionConverters.asJava(sharded.output()));
        Attribute shard = columns.remove(columns.size() - 1);
        KeyedEvents processor = new KeyedEvents(step, (StructType) columns.get(0).dataType(), version, event);
        return transform(rows, sharded, shard, columns, Encoders.INT(), processor, TimeMode.EventTime(), output);
    }

    /** Return the output of a processor over the groups of a plan; `kind` is the type of what it groups by. */
    private static Dataset<Row> transform(
            Dataset<Row> rows, LogicalPlan plan, Attribute group, List<Attribute> columns, Encoder<?> kind,
            StatefulProcessor<Object, InternalRow, InternalRow> step, TimeMode time, StructType output) {
        Seq<Attribute> groups = sequence(List.of(group)), data = sequence(columns);
        Expression read = readRow(columns);
        @SuppressWarnings({"unchecked", "rawtypes"})
        StatefulProcessor<Object, Object, Object> processor = (StatefulProcessor) step;
        @SuppressWarnings({"unchecked", "rawtypes"})
        ExpressionEncoder<Object> encoder = (ExpressionEncoder) org.apache.spark.sql.catalyst.encoders.package$.MODULE$.encoderFor(kind);
        LogicalPlan transformed = new TransformWithState(
                group, read, groups, data, processor, time, OutputMode.Append(), encoder, reference(ROW, output), plan,
                false, groups, data, read, new LocalRelation(attributes(encoder.schema()), sequence(List.of()), false, Option.empty()));
        return org.apache.spark.sql.classic.Dataset.ofRows(classic(rows).sparkSession(), transformed);
    }

    static org.apache.spark.sql.classic.Dataset<Row> classic(Dataset<Row> rows) {
        return (org.apache.spark.sql.classic.Dataset<Row>) rows;
    }

    /** Add the shard of a row's key after its columns, where Spark expects what it groups by. Keys that are equal in SQL have the same bytes: NaN, and zeros of either sign. */
    private static LogicalPlan addShard(LogicalPlan plan) {
        List<NamedExpression> columns = new ArrayList<>(CollectionConverters.asJava(plan.output()));
        Expression key = NormalizeFloatingNumbers$.MODULE$.normalize((Expression) columns.get(0));
        Expression hash = new XxHash64(sequence(List.of(key)));
        Expression shard = new org.apache.spark.sql.catalyst.expressions.Cast(
                new Pmod(hash, Literal.create((long) SHARDS, DataTypes.LongType)), DataTypes.IntegerType, Option.empty(),
                org.apache.spark.sql.catalyst.expressions.EvalMode$.MODULE$.LEGACY());
        columns.set(0, alias(key, KEY));
        columns.add(alias(shard, SHARD));
        return new Project(sequence(columns), plan);
    }

    private static Expression readRow(List<Attribute> columns) {
        List<Expression> parts = new ArrayList<>();
        for (Attribute each : columns) {
            parts.add(Literal.create(each.name(), DataTypes.StringType));
            boolean isTime = each.dataType().equals(DataTypes.TimestampType);
            parts.add(isTime ? new PreciseTimestampConversion(each, each.dataType(), DataTypes.LongType) : each);
        }
        return new CreateNamedStruct(sequence(parts));
    }

    static Alias alias(Expression made, String name) {
        return alias(made, name, Option.empty());
    }

    static Alias alias(Expression made, String name, Option<Metadata> metadata) {
        return new Alias(made, name, NamedExpression$.MODULE$.newExprId(), sequence(List.of()), metadata, sequence(List.of()));
    }

    private static Attribute reference(String name, StructType type) {
        return new AttributeReference(name, type, false, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), sequence(List.of()));
    }

    static StructType structOf(Dataset<Row> rows, int column) {
        return (StructType) rows.schema().fields()[column].dataType();
    }

    static StructType merge(StructType first, StructType second) {
        StructType merged = first;
        for (org.apache.spark.sql.types.StructField each : second.fields()) {
            merged = merged.add(each);
        }
        return merged;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Seq<Attribute> attributes(StructType columns) {
        return (Seq) DataTypeUtils.toAttributes(columns);
    }

    static <T> Seq<T> sequence(List<T> items) {
        return CollectionConverters.asScala(items).toList();
    }
}
