package kappa.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * The state of a key: its rows by time, and the watermark at which it has to be looked at again.
 *
 * <p>Stored as that watermark, then for each row its time (8 bytes), its length with its kind in the last three bits, which are free as rows
 * have whole words (4 bytes), and its bytes.
 */
final class Kept {
    private static final int HEADER = Long.BYTES;
    private static final int PER_ROW = Long.BYTES + Integer.BYTES;
    private static final int KINDS = 7;

    /** The key, as the bytes of an UnsafeRow. */
    final byte[] key;

    /** In the order of their times. A step replaces and removes entries. */
    final List<Entry> entries = new ArrayList<>();

    Kept(byte[] key) {
        this.key = key;
    }

    static Kept read(byte[] key, byte[] stored) {
        Kept kept = new Kept(key);
        ByteBuffer buffer = ByteBuffer.wrap(stored, HEADER, stored.length - HEADER);
        while (buffer.hasRemaining()) {
            long time = buffer.getLong();
            int length = buffer.getInt();
            Entry entry = new Entry(time, length & KINDS, stored, buffer.position(), length & ~KINDS);
            kept.entries.add(entry);
            buffer.position(buffer.position() + entry.length());
        }
        return kept;
    }

    /** Return the watermark at which a stored key has to be looked at again. */
    static long readWake(byte[] stored) {
        return ByteBuffer.wrap(stored).getLong();
    }

    void add(List<Entry> rows) {
        entries.addAll(rows);
        entries.sort(null);
    }

    byte[] write(long wake) {
        int size = HEADER;
        for (Entry each : entries) {
            size += PER_ROW + each.length();
        }
        ByteBuffer buffer = ByteBuffer.allocate(size).putLong(wake);
        for (Entry each : entries) {
            buffer.putLong(each.time()).putInt(each.length() | each.kind());
            buffer.put(each.buffer(), each.offset(), each.length());
        }
        return buffer.array();
    }
}
