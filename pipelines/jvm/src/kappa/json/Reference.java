package kappa.json;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterInputStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions$;
import org.apache.spark.sql.catalyst.optimizer.RewriteWithExpression$;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An expression of Spark over the key, the value and the offset of a record, as a few bytes.
 *
 * <p>Spark evaluates it only after rules of its optimizer. They are applied where it is needed first, once in a JVM, so that no pipeline starts more
 * slowly because of it.
 */
final class Reference implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final Map<Reference, byte[]> OPTIMIZED = new ConcurrentHashMap<>();
    private final byte[] packed;
    private transient Expression[][] stages;

    Reference(Expression built) {
        packed = pack(built);
    }

    InternalRow evaluate(byte[] key, byte[] value, long offset) {
        if (stages == null) {
            stages = (Expression[][]) unpack(OPTIMIZED.computeIfAbsent(this, Reference::optimize));
        }
        Object[] row = {key, value, offset};
        for (Expression[] stage : stages) {
            InternalRow input = new GenericInternalRow(row);
            row = new Object[stage.length];
            for (int i = 0; i < row.length; i++) {
                row[i] = stage[i].eval(input);
            }
        }
        return (InternalRow) row[row.length - 1];
    }

    /** Return the columns of each projection that the optimizer makes of the expression, from the record to the result. */
    private byte[] optimize() {
        List<Attribute> columns = Changes.newColumns();
        Expression over = replace(
                (Expression) unpack(packed), each -> each instanceof BoundReference argument ? (Expression) columns.get(argument.ordinal()) : null);
        LogicalPlan record = new LocalRelation(Changes.sequence(columns), Changes.sequence(List.of()), false, Option.empty());
        LogicalPlan plan = new Project(Changes.sequence(List.<NamedExpression>of(Changes.name(over))), record);
        plan = new ReplaceJson().apply(RewriteWithExpression$.MODULE$.apply(ReplaceExpressions$.MODULE$.apply(plan)));
        List<Expression[]> found = new ArrayList<>();
        for (; plan instanceof Project project; plan = project.child()) {
            List<Attribute> input = CollectionConverters.asJava(project.child().output());
            List<Expression> stage = new ArrayList<>();
            for (NamedExpression each : CollectionConverters.asJava(project.projectList())) {
                stage.add(replace((Expression) each, part -> part instanceof Attribute column ? bind(column, input) : null));
            }
            found.add(0, stage.toArray(new Expression[0]));
        }
        return pack(found.toArray(new Expression[0][]));
    }

    private static Expression bind(Attribute column, List<Attribute> input) {
        for (int place = 0; place < input.size(); place++) {
            if (input.get(place).exprId().equals(column.exprId())) {
                return new BoundReference(place, column.dataType(), column.nullable());
            }
        }
        throw new IllegalArgumentException("no column " + column);
    }

    /** Return an expression with other ones in place of parts of it; null leaves a part. */
    static Expression replace(Expression expression, Function<Expression, Expression> other) {
        Expression replaced = other.apply(expression);
        if (replaced != null) {
            return replaced;
        }
        List<Expression> children = new ArrayList<>();
        CollectionConverters.asJava(expression.children()).forEach(child -> children.add(replace(child, other)));
        return expression.withNewChildren(CollectionConverters.asScala(children).toList());
    }

    private static byte[] pack(Object expressions) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream out = new ObjectOutputStream(new DeflaterOutputStream(bytes))) {
            out.writeObject(expressions);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return bytes.toByteArray();
    }

    private static Object unpack(byte[] packed) {
        try (ObjectInputStream in = new Loader(new InflaterInputStream(new ByteArrayInputStream(packed)))) {
            return in.readObject();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (ClassNotFoundException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Finds classes as Spark's tasks do. */
    private static final class Loader extends ObjectInputStream {
        Loader(InflaterInputStream in) throws IOException {
            super(in);
        }

        @Override
        protected Class<?> resolveClass(ObjectStreamClass wanted) throws IOException, ClassNotFoundException {
            try {
                return Class.forName(wanted.getName(), false, Thread.currentThread().getContextClassLoader());
            } catch (ClassNotFoundException primitive) {
                return super.resolveClass(wanted);
            }
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Reference reference && Arrays.equals(packed, reference.packed);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(packed);
    }
}
