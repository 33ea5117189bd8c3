package kappa.json;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What `from_json` calls for each record.
 *
 * <p>A record is read here if that certainly gives what Spark gives. Spark's own parser reads all others, so that what is malformed, and
 * which of its columns are null, is decided there alone. A task has an object of its own.
 */
public final class JsonReader implements Serializable {
    private static final long serialVersionUID = 1L;

    private final JsonToStructsEvaluator spark;
    private final int longest;
    private transient StructReader reader;
    private transient Cursor cursor;

    public JsonReader(JsonToStructsEvaluator spark, int longest) {
        this.spark = spark;
        this.longest = longest;
    }

    /** Return the columns of a record, in a row that the next call changes. */
    public InternalRow evaluate(UTF8String json) {
        if (json.numBytes() <= longest) {
            InternalRow row = read(json);
            if (row != null) {
                return row;
            }
        }
        return (InternalRow) spark.evaluate(json);
    }

    /** Return whether a record is read without Spark's parser. */
    public boolean isRead(UTF8String json) {
        return json.numBytes() <= longest && read(json) != null;
    }

    private InternalRow read(UTF8String json) {
        if (reader == null) {
            compile();
        }
        cursor.open(json);
        try {
            cursor.token();
            return reader.read(cursor);
        } catch (Unusual record) {
            return null;
        } finally {
            cursor.close();
        }
    }

    private void compile() {
        JSONOptions options = new JSONOptions(spark.options(), spark.timeZoneId().get(), spark.nameOfCorruptRecord());
        StructType schema = (StructType) spark.nullableSchema();
        reader = new StructReader(schema, options.columnNameOfCorruptRecord(), true, new Readers(options));
        cursor = new Cursor();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof JsonReader reader && spark.equals(reader.spark);
    }

    @Override
    public int hashCode() {
        return spark.hashCode();
    }

    @Override
    public String toString() {
        return "kappa.json.JsonReader";
    }
}
