package kappa.json;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Puts the reader of change events into plans. Python calls these methods. */
public final class Changes {
    private static final StructType RECORD = new StructType()
            .add("key", DataTypes.BinaryType)
            .add("value", DataTypes.BinaryType)
            .add("offset", DataTypes.LongType);

    private Changes() {}

    /**
     * Return rows whose column of parsed change events is a call of a reader. The call has the name, type and nullability of the column, and knows
     * the expression that was there.
     *
     * @param described what describes a change, in the order of the columns
     * @param units the units of columns that are numbers since 1970; Microseconds for others
     */
    public static Dataset<Row> replace(
            Dataset<Row> rows, String column, List<String> described, Map<String, String> units, boolean hasTextDecimals, boolean hasTruncations) {
        org.apache.spark.sql.classic.Dataset<Row> classic = (org.apache.spark.sql.classic.Dataset<Row>) rows;
        Project project = (Project) classic.queryExecution().analyzed();
        SQLConf conf = classic.sparkSession().sessionState().conf();
        List<NamedExpression> columns = new ArrayList<>();
        for (NamedExpression each : CollectionConverters.asJava(project.projectList())) {
            if (each instanceof Alias alias && alias.name().equals(column)) {
                StructType parsed = (StructType) alias.child().dataType();
                ChangeReader.Format format = describe(
                        (StructType) parsed.fields()[0].dataType(), described, units, hasTextDecimals, hasTruncations, conf);
                columns.add(call(alias, project.child(), format));
            } else {
                columns.add(each);
            }
        }
        return org.apache.spark.sql.classic.Dataset.ofRows(classic.sparkSession(), new Project(sequence(columns), project.child()));
    }

    private static ChangeReader.Format describe(
            StructType columns, List<String> described, Map<String, String> units, boolean hasTextDecimals, boolean hasTruncations, SQLConf conf) {
        int declared = columns.length() - described.size();
        DataType[] types = new DataType[declared];
        String[] found = new String[declared];
        for (int i = 0; i < declared; i++) {
            types[i] = columns.fields()[i].dataType();
            found[i] = units.getOrDefault(columns.fields()[i].name(), "Microseconds");
        }
        return new ChangeReader.Format(
                Arrays.copyOf(columns.fieldNames(), declared), types, found, described.toArray(new String[0]), hasTextDecimals, hasTruncations,
                conf.sessionLocalTimeZone(), conf.columnNameOfCorruptRecord());
    }

    private static Alias call(Alias alias, LogicalPlan child, ChangeReader.Format format) {
        Expression built = Reference.replace(alias.child(), each -> each instanceof Attribute attribute ? bind(attribute) : null);
        ChangeReader reader = new ChangeReader(format, new Reference(built), built);
        List<Expression> arguments = new ArrayList<>();
        List<AbstractDataType> types = new ArrayList<>();
        for (StructField each : RECORD.fields()) {
            arguments.add(find(child, each.name()));
            types.add(each.dataType());
        }
        Expression made = new Invoke(
                new Literal(reader, new ObjectType(ChangeReader.class)), "evaluate", alias.child().dataType(), sequence(arguments), sequence(types),
                false, true, true);
        return new Alias(
                made, alias.name(), alias.exprId(), alias.qualifier(), alias.explicitMetadata(), alias.nonInheritableMetadataKeys());
    }

    private static BoundReference bind(Attribute attribute) {
        int place = RECORD.fieldIndex(attribute.name());
        return new BoundReference(place, RECORD.fields()[place].dataType(), true);
    }

    private static Expression find(LogicalPlan plan, String name) {
        for (Attribute each : CollectionConverters.asJava(plan.output())) {
            if (each.name().equals(name)) {
                return (Expression) each;
            }
        }
        throw new IllegalArgumentException("the records have no column " + name);
    }

    /** Return the columns of a record, as no other plan has them. */
    static List<Attribute> newColumns() {
        List<Attribute> columns = new ArrayList<>();
        for (StructField each : RECORD.fields()) {
            columns.add(new AttributeReference(
                    each.name(), each.dataType(), true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), sequence(List.of())));
        }
        return columns;
    }

    static Alias name(Expression made) {
        return new Alias(made, "made", NamedExpression$.MODULE$.newExprId(), sequence(List.of()), Option.empty(), sequence(List.of()));
    }

    static <T> Seq<T> sequence(List<T> items) {
        return CollectionConverters.asScala(items).toList();
    }
}
