package kappa.state;

import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import scala.collection.immutable.Seq;

/**
 * An encoder of a state variable that is resolved once in a JVM (ADR 87).
 *
 * <p>Spark resolves the encoders of all state variables in each task: it analyzes a plan for each, with all of its rules.
 */
final class StateEncoder<T> extends ExpressionEncoder<T> {
    private static final long serialVersionUID = 1L;

    static final Encoder<byte[]> BINARY = new StateEncoder<>(build(Encoders.BINARY()));
    static final Encoder<Long> LONG = new StateEncoder<>(build(Encoders.LONG()));

    private final ExpressionEncoder<T> resolved;

    private StateEncoder(ExpressionEncoder<T> plain) {
        super(plain.encoder(), plain.objSerializer(), plain.objDeserializer());
        resolved = plain.resolveAndBind(plain.resolveAndBind$default$1(), plain.resolveAndBind$default$2());
    }

    private static <T> ExpressionEncoder<T> build(Encoder<T> encoder) {
        return org.apache.spark.sql.catalyst.encoders.package$.MODULE$.encoderFor(encoder);
    }

    /** Return the resolved encoder. State variables have the attributes of their own schema, which are the default. */
    @Override
    public ExpressionEncoder<T> resolveAndBind(Seq<Attribute> attributes, Analyzer analyzer) {
        return resolved;
    }
}
