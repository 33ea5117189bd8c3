package kappa.state;

import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;

/** A sliding window: each final event with the aggregates of the events from `length` microseconds before it up to its time. */
final class Sliding implements Step {
    private static final long serialVersionUID = 1L;

    private final long length;
    private final int columns;
    private final Aggregates aggregates;

    Sliding(long length, int columns, Aggregates aggregates) {
        this.length = length;
        this.columns = columns;
        this.aggregates = aggregates;
    }

    @Override
    public void open() {
        aggregates.open();
    }

    @Override
    public void advance(Kept kept, long watermark, Output output) {
        List<Entry> entries = kept.entries;
        int first = 0;
        for (int at = 0, end; at < entries.size() && entries.get(at).time() <= watermark; at = end) {
            long time = entries.get(at).time();
            end = at + 1;
            while (end < entries.size() && entries.get(end).time() == time) {
                end++;
            }
            if (entries.get(at).isPending(watermark)) {
                while (entries.get(first).time() < subtract(time, length)) {
                    first++;
                }
                write(entries, at, end, aggregates.compute(entries.subList(first, end), columns), output);
            }
        }
        removeOld(entries, subtract(watermark, length));
    }

    /** Write the events of one time. */
    private void write(List<Entry> entries, int from, int end, UnsafeRow found, Output output) {
        for (int at = from; at < end; at++) {
            output.add(new JoinedRow(entries.get(at).row(columns), found));
            entries.set(at, entries.get(at).done());
        }
    }

    /** Remove the events that are in no window of a later event. */
    private static void removeOld(List<Entry> entries, long until) {
        int old = 0;
        while (old < entries.size() && entries.get(old).time() <= until) {
            old++;
        }
        entries.subList(0, old).clear();
    }

    @Override
    public long findWake(Kept kept) {
        for (Iterator<Entry> each = kept.entries.iterator(); each.hasNext(); ) {
            Entry entry = each.next();
            if (entry.kind() == Entry.PENDING) {
                return entry.time();
            }
        }
        long newest = kept.entries.get(kept.entries.size() - 1).time();
        return newest > NEVER - length ? NEVER : newest + length;
    }

    private static long subtract(long time, long length) {
        return time < Long.MIN_VALUE + length ? Long.MIN_VALUE : time - length;
    }
}
