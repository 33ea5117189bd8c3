package kappa.state;

import java.nio.ByteBuffer;
import java.util.List;

/**
 * Rows of a key that are stored apart from it, as they are many: an entry of the key has their number, from when on none of them is needed, and
 * the least and greatest times of both sides.
 */
record Chunk(long number, long until, Span left, Span right) {
    private static final int SIZE = 5 * Long.BYTES;

    /** Times from `least` to `greatest`, both included; none if `least` is greater. */
    record Span(long least, long greatest) {
        static final Span NONE = new Span(Long.MAX_VALUE, Long.MIN_VALUE);

        static Span of(List<Entry> sorted) {
            return sorted.isEmpty() ? NONE : new Span(sorted.get(0).time(), sorted.get(sorted.size() - 1).time());
        }

        boolean overlaps(long from, long to) {
            return least <= to && from <= greatest;
        }

        boolean isEmpty() {
            return least > greatest;
        }
    }

    static Chunk read(Entry entry) {
        ByteBuffer buffer = ByteBuffer.wrap(entry.buffer(), entry.offset(), entry.length());
        long number = buffer.getLong();
        return new Chunk(number, entry.time(), new Span(buffer.getLong(), buffer.getLong()), new Span(buffer.getLong(), buffer.getLong()));
    }

    /** Return the entry of the key. */
    Entry toEntry() {
        ByteBuffer buffer = ByteBuffer.allocate(SIZE).putLong(number);
        buffer.putLong(left.least).putLong(left.greatest).putLong(right.least).putLong(right.greatest);
        return new Entry(until, Entry.CHUNK, buffer.array(), 0, SIZE);
    }

    /** Return the key of the chunk's rows in the state. */
    byte[] nameRows(byte[] key) {
        return ByteBuffer.allocate(key.length + Long.BYTES).put(key).putLong(number).array();
    }
}
