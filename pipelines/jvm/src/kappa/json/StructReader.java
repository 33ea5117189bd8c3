package kappa.json;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecificInternalRow;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** Reads objects. A missing field is null, an unknown one is skipped, and of fields of one name the last counts, as with Spark. */
final class StructReader extends Reader {
    private final StructType schema;
    private final byte[][] names;
    private final int[] columns;
    private final Reader[] readers;
    private final SpecificInternalRow reused;

    /** Fields with the name `left` are null. With `isReused` each object is read into the same row. */
    StructReader(StructType schema, String left, boolean isReused, Readers make) {
        this.schema = schema;
        int count = 0;
        for (StructField field : schema.fields()) {
            count += field.name().equals(left) ? 0 : 1;
        }
        names = new byte[count][];
        columns = new int[count];
        readers = new Reader[count];
        StructField[] fields = schema.fields();
        for (int column = 0, found = 0; column < fields.length; column++) {
            if (!fields[column].name().equals(left)) {
                names[found] = (fields[column].name() + '"').getBytes(StandardCharsets.UTF_8);
                columns[found] = column;
                readers[found++] = make.build(fields[column].dataType(), isReused);
            }
        }
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
            int field = findField(cursor, next);
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

    /** Move behind a name and return its field; -1 if there is none. Most records have the fields in the order of the schema. */
    private int findField(Cursor cursor, int next) {
        if (cursor.token() != '"') {
            throw Unusual.RECORD;
        }
        int wanted = next < names.length ? next : 0;
        if (wanted < names.length && cursor.isName(names[wanted])) {
            return wanted;
        }
        int from = cursor.at + 1;
        int length = cursor.plain() - from + 1;
        if (length > Cursor.MAX_NAME) {
            throw Unusual.RECORD;
        }
        for (int field = 0; field < names.length; field++) {
            byte[] name = names[field];
            if (name.length == length && java.util.Arrays.equals(cursor.bytes, from, from + length, name, 0, length)) {
                return field;
            }
        }
        return -1;
    }
}
