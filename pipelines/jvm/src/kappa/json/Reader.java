package kappa.json;

import org.apache.spark.sql.catalyst.InternalRow;

/** Reads a value of one type that is not null. The cursor is at its first byte, and then behind its last. */
abstract class Reader {
    abstract Object read(Cursor cursor);

    /** Read into a column of a row; primitive types do so without an object. */
    void readInto(Cursor cursor, InternalRow row, int column) {
        row.update(column, read(cursor));
    }
}
