package kappa.json;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** The row of a change event: the values of its columns, and which of them have a text. A column without a text is null. */
final class ChangeRow {
    private final Names names;
    private final Reader[] readers;
    private final UTF8String[] texts;
    private final Object[] values;
    private final boolean[] isKnown;

    ChangeRow(String[] columns, Reader[] readers) {
        names = new Names(List.of(columns));
        this.readers = readers;
        texts = new UTF8String[columns.length];
        for (int column = 0; column < columns.length; column++) {
            texts[column] = UTF8String.fromString(columns[column]);
        }
        values = new Object[columns.length];
        isKnown = new boolean[columns.length];
    }

    void clear() {
        for (int column = 0; column < values.length; column++) {
            set(column, null, false);
        }
    }

    private void set(int column, Object value, boolean hasText) {
        values[column] = value;
        isKnown[column] = hasText;
    }

    /** Read an object. */
    void read(Cursor cursor) {
        clear();
        if (cursor.bytes[cursor.at] != '{') {
            throw Unusual.RECORD;
        }
        if (!cursor.hasFirst('}')) {
            return;
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
                set(field, null, false);
            } else {
                set(field, readers[field].read(cursor), true);
            }
            next = field + 1;
        } while (cursor.hasNext('}'));
    }

    /** Take the columns without a text from another row. */
    void fill(ChangeRow other) {
        for (int column = 0; column < values.length; column++) {
            if (!isKnown[column]) {
                set(column, other.values[column], other.isKnown[column]);
            }
        }
    }

    boolean isComplete() {
        return count() == values.length;
    }

    boolean isEmpty() {
        return count() == 0;
    }

    private int count() {
        int found = 0;
        for (boolean each : isKnown) {
            found += each ? 1 : 0;
        }
        return found;
    }

    /** Write the values to the first places of a row. */
    Object[] write(int places) {
        Object[] row = new Object[places];
        for (int column = 0; column < values.length; column++) {
            row[column] = values[column] == ChangeColumns.UNAVAILABLE ? null : values[column];
        }
        return row;
    }

    int length() {
        return values.length;
    }

    /** Return the names of the columns whose values the change has left as they were. */
    GenericArrayData unavailable() {
        List<Object> found = new ArrayList<>();
        for (int column = 0; column < values.length; column++) {
            if (values[column] == ChangeColumns.UNAVAILABLE) {
                found.add(texts[column]);
            }
        }
        return new GenericArrayData(found.toArray());
    }
}
