package kappa.state;

import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/**
 * An event of a pattern. Its columns are a hash of it, by which events of the same time are sorted; a bit for each step whose own condition it
 * satisfies; what conditions need of it; and what measures need of it.
 */
final class Event implements Comparable<Event> {
    static final int COLUMNS = 4, HASH = 0, BITS = 1, OPERANDS = 2, NEEDED = 3;

    private final Entry entry;
    private final UnsafeRow row;

    Event(Entry entry) {
        this.entry = entry;
        this.row = entry.row(COLUMNS);
    }

    long time() {
        return entry.time();
    }

    boolean satisfies(int step) {
        return (row.getLong(BITS) >>> step & 1) != 0;
    }

    UnsafeRow read(int column, int size) {
        return row.getStruct(column, size);
    }

    Entry entry(int kind) {
        return new Entry(entry.time(), kind, entry.buffer(), entry.offset(), entry.length());
    }

    /** By time, hash and columns, so the order of arrival does not matter. */
    @Override
    public int compareTo(Event other) {
        int byTime = Long.compare(time(), other.time());
        int order = byTime != 0 ? byTime : Long.compare(row.getLong(HASH), other.row.getLong(HASH));
        return order != 0 ? order : compare(entry, other.entry);
    }

    private static int compare(Entry one, Entry other) {
        int from = one.offset(), by = other.offset();
        return Arrays.compareUnsigned(one.buffer(), from, from + one.length(), other.buffer(), by, by + other.length());
    }
}
