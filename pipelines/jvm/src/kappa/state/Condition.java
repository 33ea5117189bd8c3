package kappa.state;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.Abs;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Divide;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.NumericEvalContext;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StructType;
import scala.Enumeration;

/** The condition of a step that refers to earlier events: an expression of Spark over values of the events of a match. */
final class Condition implements Serializable {
    private static final long serialVersionUID = 1L;

    private final Expression expression;
    private final Attribute[] columns;
    private final Navigation[] inputs;
    private final StructType operands;
    private transient BasePredicate predicate;
    private transient GenericInternalRow row;

    /** `selected` is the expression over a relation that has a column for each of `inputs`. */
    Condition(Dataset<Row> selected, Navigation[] inputs, StructType operands) {
        Compiler compiler = new Compiler(selected);
        Attribute[] all = compiler.inputs();
        expression = tolerate(compiler.compileColumn());
        List<Attribute> used = new ArrayList<>();
        List<Navigation> values = new ArrayList<>();
        for (int at = 0; at < all.length; at++) {
            if (expression.references().contains(all[at])) {
                used.add(all[at]);
                values.add(inputs[at]);
            }
        }
        this.columns = used.toArray(new Attribute[0]);
        this.inputs = values.toArray(new Navigation[0]);
        this.operands = operands;
    }

    void open() {
        predicate = Predicate$.MODULE$.create(expression, Plans.sequence(Arrays.asList(columns)));
        predicate.initialize(0);
        row = new GenericInternalRow(inputs.length);
    }

    List<Navigation> inputs() {
        return List.of(inputs);
    }

    /** Return whether it is true for the last of the events of a path. */
    boolean holds(byte[] path, List<Event> events) {
        for (int at = 0; at < inputs.length; at++) {
            row.update(at, inputs[at].find(path, events, operands));
        }
        return predicate.eval(row);
    }

    /** Return an expression that is NULL where a result does not fit its type, or at a division by zero: a stream must not stop for a match. */
    private static Expression tolerate(Expression expression) {
        List<Expression> children = new ArrayList<>();
        scala.jdk.javaapi.CollectionConverters.asJava(expression.children()).forEach(child -> children.add(tolerate(child)));
        Expression same = expression.withNewChildren(Plans.sequence(children));
        if (!(same.dataType() instanceof NumericType)) {
            return same;
        }
        Enumeration.Value mode = EvalMode$.MODULE$.TRY();
        if (same instanceof Add each) {
            return each.copy(each.left(), each.right(), tolerate(each.evalContext(), mode));
        } else if (same instanceof Subtract each) {
            return each.copy(each.left(), each.right(), tolerate(each.evalContext(), mode));
        } else if (same instanceof Multiply each) {
            return each.copy(each.left(), each.right(), tolerate(each.evalContext(), mode));
        } else if (same instanceof Divide each) {
            return each.copy(each.left(), each.right(), tolerate(each.evalContext(), mode));
        } else if (same instanceof Cast each) {
            return each.copy(each.child(), each.dataType(), each.timeZoneId(), mode);
        } else if (same instanceof UnaryMinus each) {
            return each.copy(each.child(), false);
        }
        return same instanceof Abs each ? each.copy(each.child(), false) : same;
    }

    private static NumericEvalContext tolerate(NumericEvalContext context, Enumeration.Value mode) {
        return context.copy(mode, context.allowDecimalPrecisionLoss());
    }
}
