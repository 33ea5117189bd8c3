package kappa.json;

import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator;
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.internal.LegacyBehaviorPolicy;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.AbstractDataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * An optimizer rule that calls this module for `from_json` and `to_json` where it supports the type. Names, types and nullability of columns stay, so
 * checkpoints fit with and without it.
 */
final class ReplaceJson extends Rule<LogicalPlan> {
    static final String SETTING = "spark.sql.kappa.nativeJson";

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        SQLConf conf = SQLConf.get();
        boolean isWanted = Boolean.parseBoolean(conf.getConfString(SETTING, "true"));
        boolean isLegacy = conf.legacyTimeParserPolicy().equals(LegacyBehaviorPolicy.LEGACY());
        return isWanted && !isLegacy ? plan.transformAllExpressions(new Replace(conf)) : plan;
    }

    private static final class Replace extends AbstractPartialFunction<Expression, Expression> {
        private final String corrupt;

        Replace(SQLConf conf) {
            corrupt = conf.columnNameOfCorruptRecord();
        }

        @Override
        public boolean isDefinedAt(Expression found) {
            if (found instanceof JsonToStructs read) {
                return read.timeZoneId().isDefined()
                        && read.child().dataType().equals(DataTypes.StringType)
                        && Support.explainRead(read.dataType(), read.options(), corrupt) == null;
            }
            return findWriter(found) instanceof StructsToJsonEvaluator spark
                    && spark.timeZoneId().isDefined()
                    && Support.explainWrite(spark.inputSchema(), spark.options()) == null;
        }

        /** Return what Spark has put into the place of `to_json` before this rule; null for other expressions. */
        private static Object findWriter(Expression found) {
            return found instanceof Invoke call && call.targetObject() instanceof Literal target ? target.value() : null;
        }

        @Override
        public Expression apply(Expression found) {
            return found instanceof JsonToStructs read ? replaceRead(read) : replaceWrite((Invoke) found);
        }

        private Expression replaceRead(JsonToStructs read) {
            JsonToStructsEvaluator spark = new JsonToStructsEvaluator(
                    read.options(), read.dataType(), corrupt, read.timeZoneId(), read.variantAllowDuplicateKeys());
            JsonReader reader = new JsonReader(spark, Support.longest(read.options()));
            return new Invoke(
                    new Literal(reader, new ObjectType(JsonReader.class)),
                    "evaluate",
                    read.dataType(),
                    one(read.child()),
                    one((AbstractDataType) DataTypes.StringType),
                    true,
                    true,
                    true);
        }

        private static Expression replaceWrite(Invoke call) {
            JsonWriter writer = new JsonWriter((StructsToJsonEvaluator) findWriter(call));
            return new Invoke(
                    new Literal(writer, new ObjectType(JsonWriter.class)),
                    call.functionName(),
                    call.dataType(),
                    call.arguments(),
                    call.methodInputTypes(),
                    call.propagateNull(),
                    call.returnNullable(),
                    call.isDeterministic());
        }

        private static <T> Seq<T> one(T element) {
            return CollectionConverters.asScala(java.util.List.of(element)).toList();
        }

        @Override
        public <A1 extends Expression, B1> B1 applyOrElse(A1 found, scala.Function1<A1, B1> other) {
            @SuppressWarnings("unchecked")
            B1 replaced = isDefinedAt(found) ? (B1) apply(found) : other.apply(found);
            return replaced;
        }
    }
}
