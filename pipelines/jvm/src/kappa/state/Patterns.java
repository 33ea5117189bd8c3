package kappa.state;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The plans of patterns. Python calls these methods. */
public final class Patterns {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Patterns() {}

    /** A pattern in JSON. `within` is in microseconds, negative without a limit. */
    private record Definition(Position[] positions, long within, String skip, int skipStep, Reads[] conditions) {}

    /** What the condition of a step reads, in the order of the columns of its relation. */
    private record Reads(int step, Navigation[] inputs) {}

    /** Return the matches in rows of a key, a time and an event; `conditions` are in the order of the definition. */
    public static Dataset<Row> search(Dataset<Row> rows, String definition, List<Dataset<Row>> conditions) throws JsonProcessingException {
        Definition pattern = JSON.readValue(definition, Definition.class);
        StructType key = structOf(rows, 0), event = structOf(rows, 2);
        StructType operands = (StructType) event.fields()[Event.OPERANDS].dataType();
        Condition[] compiled = new Condition[Byte.MAX_VALUE];
        for (int at = 0; at < pattern.conditions.length; at++) {
            Reads reads = pattern.conditions[at];
            compiled[reads.step] = new Condition(conditions.get(at), reads.inputs, operands);
        }
        long within = pattern.within < 0 ? Step.NEVER : pattern.within;
        Search step = new Search(
                pattern.positions, compiled, within, Search.Skip.valueOf(pattern.skip), pattern.skipStep, key.length(), event);
        return Plans.transform(rows, step, describe(key, (StructType) event.fields()[Event.NEEDED].dataType()), null, event);
    }

    private static StructType structOf(Dataset<Row> rows, int column) {
        return (StructType) rows.schema().fields()[column].dataType();
    }

    /** Return the columns of a match. */
    private static StructType describe(StructType key, StructType needed) {
        StructType row = new StructType().add("s", DataTypes.IntegerType).add("v", strip(needed));
        return new StructType()
                .add("key", strip(key))
                .add("rows", DataTypes.createArrayType(row))
                .add("match_start", DataTypes.LongType)
                .add("match_end", DataTypes.LongType)
                .add("match_time", DataTypes.TimestampType);
    }

    /** Return columns without watermarks. */
    private static StructType strip(StructType columns) {
        StructType made = new StructType();
        for (StructField each : columns.fields()) {
            made = made.add(each.name(), each.dataType());
        }
        return made;
    }
}
