package kappa.json;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Reads objects. A missing field is null, an unknown one is skipped, and of fields of one name the last counts, as with Spark. */
final class StructReader extends Reader {
    private final StructType schema;
    private final Names names;
    private final int[] columns;
    private final Reader[] readers;
    private final SpecificInternalRow reused;

    /** Fields with the name `left` are null. With `isReused` each object is read into the same row. */
    StructReader(StructType schema, String left, boolean isReused, Readers make) {
        this.schema = schema;
        List<String> found = new ArrayList<>();
        List<Reader> made = new ArrayList<>();
        columns = new int[schema.length()];
        StructField[] fields = schema.fields();
        for (int column = 0; column < fields.length; column++) {
            if (!fields[column].name().equals(left)) {
                columns[found.size()] = column;
                found.add(fields[column].name());
                made.add(make.build(fields[column].dataType(), isReused));
            }
        }
        names = new Names(found);
        readers = made.toArray(new Reader[0]);
        reused = isReused ? new SpecificInternalRow(schema) : null;
    }

    @Override
    InternalRow read(Cursor cursor) {
        if (cursor.bytes[cursor.at] != '{') {
            throw Unusual.RECORD;
        }
        SpecificInternalRow row = reused == null ? new SpecificInternalRow(schema) : reused;
        if (reused != null) {
            for (int column = 0; column < row.numFields(); column++) {
                row.setNullAt(column);
            }
        }
        if (!cursor.hasFirst('}')) {
            return row;
        }
        int next = 0;
        do {
            int field = names.find(cursor, next);
            cursor.expect(':');
            cursor.token();
            if (field < 0) {
                cursor.skip();
                continue;
            }
            if (cursor.isNull()) {
                row.setNullAt(columns[field]);
            } else {
                readers[field].readInto(cursor, row, columns[field]);
            }
            next = field + 1;
        } while (cursor.hasNext('}'));
        return row;
    }
}
