package kappa.state;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.unsafe.types.UTF8String;

/** A step that stores one row for each key. */
abstract class RowStep extends TableStep {
    private static final long serialVersionUID = 1L;

    private final boolean hasVersions;
    private transient ValueState<byte[]> stored;

    /** With `hasVersions`, the order of a change is a version of change events, else a whole number. */
    RowStep(boolean hasVersions) {
        this.hasVersions = hasVersions;
    }

    @Override
    public void init(OutputMode mode, TimeMode time) {
        stored = openValue("row");
    }

    /** Return the row of the present key; null if there is none. */
    Change find() {
        return Change.unpack(stored.get());
    }

    void keep(Change row) {
        store(stored, row);
    }

    Change read(InternalRow row, int order, UTF8String to, int body) {
        return readChange(row, order, hasVersions, to, Change.copyText(row, body));
    }
}
