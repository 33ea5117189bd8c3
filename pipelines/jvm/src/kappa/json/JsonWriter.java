package kappa.json;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.unsafe.types.UTF8String;

/** What `to_json` calls for each value of a supported type. A task has an object of its own. */
public final class JsonWriter implements Serializable {
    private static final long serialVersionUID = 1L;

    private final StructsToJsonEvaluator spark;
    private transient Writer writer;
    private transient Output output;
    private transient Object[] value;
    private transient GenericInternalRow row;

    JsonWriter(StructsToJsonEvaluator spark) {
        this.spark = spark;
    }

    /** Return a row, an array or a map as JSON. */
    public UTF8String evaluate(Object written) {
        if (writer == null) {
            compile();
        }
        value[0] = written;
        try {
            writer.write(row, 0, output);
            return output.take();
        } finally {
            value[0] = null;
            output.reset();
        }
    }

    private void compile() {
        value = new Object[1];
        row = new GenericInternalRow(value);
        output = new Output();
        writer = new Writers(new JSONOptions(spark.options(), spark.timeZoneId().get(), "")).build(spark.inputSchema());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof JsonWriter own && spark.equals(own.spark);
    }

    @Override
    public int hashCode() {
        return spark.hashCode();
    }

    @Override
    public String toString() {
        return "kappa.json.JsonWriter";
    }
}
