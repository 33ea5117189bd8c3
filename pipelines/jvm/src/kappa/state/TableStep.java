package kappa.state;

import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A step over changes of tables. A key is a group of Spark, as no step waits for a time.
 *
 * <p>Each one has the columns and the logic of the step of the same name in Python. Rows of a key that may be many are entries of a map, so that
 * a change reads and writes only those that it is about.
 */
abstract class TableStep extends StatefulProcessor<Object, InternalRow, InternalRow> {
    private static final long serialVersionUID = 1L;

    /** Verbs of messages between steps: a row is here, is deleted, or is elsewhere. The body of LEAVE is what the row refers to now. */
    static final UTF8String PUT = UTF8String.fromString("put"), DROP = UTF8String.fromString("drop"), LEAVE = UTF8String.fromString("leave");

    /** Return the output of the rows of a key. */
    abstract Iterator<InternalRow> advance(UTF8String key, Iterator<InternalRow> rows);

    @Override
    public Iterator<InternalRow> handleInputRows(Object key, Iterator<InternalRow> rows, TimerValues timers) {
        return advance(UTF8String.fromBytes((byte[]) key), rows);
    }

    ValueState<byte[]> openValue(String name) {
        return getHandle().getValueState(name, StateEncoder.BINARY, TTLConfig.NONE());
    }

    MapState<byte[], byte[]> openMap(String name) {
        return getHandle().getMapState(name, StateEncoder.BINARY, StateEncoder.BINARY, TTLConfig.NONE());
    }

    /** Store a row, or remove it if it was deleted. */
    static void store(ValueState<byte[]> state, Change row) {
        if (row.body() == null) {
            state.clear();
        } else {
            state.update(row.pack());
        }
    }

    /** Read a change whose order is a whole number or a version. */
    static Change readChange(InternalRow row, int order, boolean hasVersions, UTF8String to, UTF8String body) {
        return hasVersions ? Change.ofVersion(Change.copyText(row, order), to, body) : Change.ofNumber(row.getLong(order), to, body);
    }

    static InternalRow row(Object... values) {
        return new GenericInternalRow(values);
    }

    static Iterator<InternalRow> iterate(List<InternalRow> rows) {
        return CollectionConverters.asScala(rows.iterator());
    }
}
