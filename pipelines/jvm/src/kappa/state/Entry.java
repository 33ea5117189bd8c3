package kappa.state;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/** A row of a key's state: its event time in microseconds, its kind, and its columns as the bytes of an UnsafeRow within a buffer. */
record Entry(long time, int kind, byte[] buffer, int offset, int length) implements Comparable<Entry> {
    /**
     * A version of a table's row, an event whose output is not written or that a pattern has not read, one whose output is or that it has, the
     * paths of a pattern, a row of the right side of a join, and where others of its rows are. They are part of checkpoints.
     */
    static final int VERSION = 0, PENDING = 1, DONE = 2, PATHS = 3, RIGHT = 4, CHUNK = 5;

    static Entry of(long time, int kind, UnsafeRow row) {
        byte[] bytes = new byte[row.getSizeInBytes()];
        row.writeToMemory(bytes, Platform.BYTE_ARRAY_OFFSET);
        return new Entry(time, kind, bytes, 0, bytes.length);
    }

    boolean isPending(long watermark) {
        return kind == PENDING && time <= watermark;
    }

    Entry done() {
        return as(DONE);
    }

    Entry as(int other) {
        return new Entry(time, other, buffer, offset, length);
    }

    /** Return the columns, in a new row or in a given one. */
    UnsafeRow row(int columns) {
        return point(new UnsafeRow(columns));
    }

    UnsafeRow point(UnsafeRow row) {
        row.pointTo(buffer, Platform.BYTE_ARRAY_OFFSET + offset, length);
        return row;
    }

    /** By time; at the same time versions are before events. */
    @Override
    public int compareTo(Entry other) {
        int byTime = Long.compare(time, other.time);
        return byTime != 0 ? byTime : Integer.compare(Math.min(kind, PENDING), Math.min(other.kind, PENDING));
    }
}
