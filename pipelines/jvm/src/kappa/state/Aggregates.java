package kappa.state;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.MutableProjection;
import org.apache.spark.sql.catalyst.expressions.MutableProjection$;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.execution.window.AggregateProcessor;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction2;

/** Aggregates of some rows, by the functions of Spark, as its windows of batches (`OVER`) compute them. */
final class Aggregates implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Attribute[] input;
    private final AggregateExpression[] functions;
    private final Expression[] results;
    private transient AggregateProcessor processor;
    private transient SpecificInternalRow values;
    private transient UnsafeProjection projection;
    private transient UnsafeRow row;

    /** `results` are computed from the values of the functions. */
    Aggregates(Attribute[] input, AggregateExpression[] functions, Expression[] results) {
        this.input = input;
        this.functions = functions;
        this.results = results;
    }

    /** Return the column in which the value of a function is. */
    static AttributeReference valueOf(AggregateExpression found) {
        return (AttributeReference) found.resultAttribute();
    }

    void open() {
        List<Expression> called = new ArrayList<>();
        List<Option<Expression>> filters = new ArrayList<>();
        List<Attribute> made = new ArrayList<>();
        for (AggregateExpression each : functions) {
            called.add(each.aggregateFunction());
            filters.add(each.filter());
            made.add(valueOf(each));
        }
        @SuppressWarnings({"unchecked", "rawtypes"})
        Option<Expression>[] conditions = filters.toArray(new Option[0]);
        processor = AggregateProcessor.apply(called.toArray(new Expression[0]), 0, sequence(List.of(input)), new Create(), conditions);
        values = new SpecificInternalRow(CollectionConverters.asScala(made.stream().map(Attribute::dataType).toList()).toSeq());
        projection = UnsafeProjection$.MODULE$.create(sequence(List.of(results)), sequence(made));
        row = new UnsafeRow(input.length);
    }

    UnsafeRow compute(List<Entry> rows, int columns) {
        processor.initialize(rows.size());
        for (Entry each : rows) {
            processor.update(each.point(row));
        }
        processor.evaluate(values);
        return projection.apply(values).copy();
    }

    private static <T> Seq<T> sequence(List<T> items) {
        return CollectionConverters.asScala(items).toSeq();
    }

    private static final class Create extends AbstractFunction2<Seq<Expression>, Seq<Attribute>, MutableProjection> {
        @Override
        public MutableProjection apply(Seq<Expression> expressions, Seq<Attribute> schema) {
            return MutableProjection$.MODULE$.create(expressions, schema);
        }
    }
}
