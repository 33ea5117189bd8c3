package kappa.state;

import java.util.ArrayList;
import java.util.List;
import kappa.state.Chunk.Span;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;

/**
 * An inner join of two streams on a key and within a time interval: the pairs of which a row is new, when it comes. A pair has `right - left`
 * between two distances in microseconds. What else joins them, Spark checks in the output.
 *
 * <p>A key has the rows of both sides in one value. Where they are many, older ones are in chunks that are not written again.
 */
final class IntervalJoin implements Step {
    private static final long serialVersionUID = 1L;

    /** The kinds of entries of the right side as they come, of the left side, and of rows of both that were paired. */
    private static final int NEW_RIGHT = Entry.VERSION, NEW_LEFT = Entry.PENDING, LEFT = Entry.DONE, RIGHT = Entry.RIGHT;

    private final long least;
    private final long greatest;
    private final int columns;
    private final int columnsOfRight;
    private final int chunkSize;
    private transient MapState<byte[], byte[]> chunks;

    /** A chunk begins where the rows of a key have `chunkSize` bytes. */
    IntervalJoin(long least, long greatest, int columns, int columnsOfRight, int chunkSize) {
        this.least = least;
        this.greatest = greatest;
        this.columns = columns;
        this.columnsOfRight = columnsOfRight;
        this.chunkSize = chunkSize;
    }

    @Override
    public void init(StatefulProcessorHandle handle) {
        chunks = handle.getMapState("chunks", StateEncoder.BINARY, StateEncoder.BINARY, TTLConfig.NONE());
    }

    @Override
    public void open() {}

    /** The rows of one side, in the order of their times: new ones, and all that they may pair with. */
    private record Side(List<Entry> added, List<Entry> all) {
        Side() {
            this(new ArrayList<>(), new ArrayList<>());
        }
    }

    @Override
    public void advance(Kept kept, long watermark, Output output) {
        Side left = new Side(), right = new Side();
        List<Chunk> known = new ArrayList<>();
        List<Entry> rows = new ArrayList<>();
        for (Entry each : kept.entries) {
            if (each.kind() == Entry.CHUNK) {
                known.add(Chunk.read(each));
                continue;
            }
            boolean isLeft = each.kind() == NEW_LEFT || each.kind() == LEFT;
            boolean isNew = each.kind() == NEW_LEFT || each.kind() == NEW_RIGHT;
            (isNew ? (isLeft ? left : right).added : (isLeft ? left : right).all).add(each);
            if (findEnd(each.time(), isLeft) > watermark) {
                rows.add(isNew ? each.as(isLeft ? LEFT : RIGHT) : each);
            }
        }
        if (!left.added.isEmpty() || !right.added.isEmpty()) {
            readChunks(kept.key, known, left, right);
            pair(left, right, output);
        }
        kept.entries.clear();
        for (Chunk each : known) {
            if (each.until() > watermark) {
                kept.entries.add(each.toEntry());
            } else {
                chunks.removeKey(each.nameRows(kept.key));
            }
        }
        store(kept, known, rows);
    }

    /** Store the rows that later ones may pair with: those of a size in chunks, and the rest in the key. */
    private void store(Kept kept, List<Chunk> known, List<Entry> rows) {
        long next = known.stream().mapToLong(Chunk::number).max().orElse(-1) + 1;
        List<Entry> piece = new ArrayList<>();
        int size = 0;
        for (Entry each : rows) {
            piece.add(each);
            size += each.length();
            if (size > chunkSize) {
                kept.entries.add(store(kept.key, next++, piece).toEntry());
                piece.clear();
                size = 0;
            }
        }
        kept.entries.addAll(piece);
    }

    /** Add the rows of chunks that a new row may pair with. */
    private void readChunks(byte[] key, List<Chunk> known, Side left, Side right) {
        Span lefts = Span.of(left.added), rights = Span.of(right.added);
        boolean isRead = false;
        for (Chunk each : known) {
            boolean isForLeft = !lefts.isEmpty()
                    && each.right().overlaps(Times.add(lefts.least(), least), Times.add(lefts.greatest(), greatest));
            boolean isForRight = !rights.isEmpty()
                    && each.left().overlaps(Times.add(rights.least(), -greatest), Times.add(rights.greatest(), -least));
            if (isForLeft || isForRight) {
                for (Entry row : Kept.read(key, chunks.getValue(each.nameRows(key))).entries) {
                    (row.kind() == LEFT ? left : right).all.add(row);
                }
                isRead = true;
            }
        }
        if (isRead) {
            left.all.sort(null);
            right.all.sort(null);
        }
    }

    /** Pair new rows of the right side with those of the left that were there before, and new ones of the left with all of the right. */
    private void pair(Side left, Side right, Output output) {
        output.add(new Pairs(right.added, left.all, new Pairs.Shape(-greatest, -least, false, columnsOfRight, columns)));
        right.all.addAll(right.added);
        right.all.sort(null);
        output.add(new Pairs(left.added, right.all, new Pairs.Shape(least, greatest, true, columns, columnsOfRight)));
    }

    /** Store rows as a chunk. */
    private Chunk store(byte[] key, long number, List<Entry> rows) {
        long until = rows.stream().mapToLong(this::findEnd).max().getAsLong();
        Chunk made = new Chunk(number, until, findSpan(rows, LEFT), findSpan(rows, RIGHT));
        Kept stored = new Kept(key);
        stored.entries.addAll(rows);
        chunks.updateValue(made.nameRows(key), stored.write(until));
        return made;
    }

    private static Span findSpan(List<Entry> rows, int kind) {
        return Span.of(rows.stream().filter(each -> each.kind() == kind).toList());
    }

    /** Return the watermark that excludes further pairs of a row. */
    private long findEnd(long time, boolean isLeft) {
        return Times.add(time, isLeft ? greatest : -least);
    }

    private long findEnd(Entry row) {
        return row.kind() == Entry.CHUNK ? row.time() : findEnd(row.time(), row.kind() == LEFT);
    }

    /** Rows of a key that gets no other ones are removed together. */
    @Override
    public long findWake(Kept kept) {
        return kept.entries.stream().mapToLong(this::findEnd).max().getAsLong();
    }
}
