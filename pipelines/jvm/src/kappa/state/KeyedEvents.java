package kappa.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Runs a step over the rows of keys, each row once in the state.
 *
 * <p>Keys are hashed into shards, which are Spark's groups: a shard has one timer, and its keys are the entries of a map. So a key costs one
 * read and one write, where a group of its own costs a dozen for its timer. If the shard's next time has come, all of its keys are read.
 */
final class KeyedEvents extends StatefulProcessor<Object, InternalRow, InternalRow> {
    private static final long serialVersionUID = 1L;
    private static final long MICROS = 1000;

    private final Step step;
    private final StructType keyType;
    private final StructType[] types;
    private transient UnsafeProjection keys;
    private transient UnsafeProjection[] packers;
    private transient MapState<byte[], byte[]> rows;
    private transient ValueState<Long> wake;

    /** Rows have a key, a time in microseconds, and either a version, where there are any, or an event. */
    KeyedEvents(Step step, StructType keyType, StructType version, StructType event) {
        this.step = step;
        this.keyType = keyType;
        this.types = new StructType[] {version, event};
    }

    @Override
    public void init(OutputMode mode, TimeMode time) {
        rows = getHandle().getMapState("rows", StateEncoder.BINARY, StateEncoder.BINARY, TTLConfig.NONE());
        wake = getHandle().getValueState("wake", StateEncoder.LONG, TTLConfig.NONE());
        step.init(getHandle());
        keys = null;
    }

    @Override
    public Iterator<InternalRow> handleInputRows(Object shard, Iterator<InternalRow> input, TimerValues timers) {
        Map<ByteBuffer, List<Entry>> added = new HashMap<>();
        while (input.hasNext()) {
            add(added, input.next());
        }
        return advance(added, timers);
    }

    @Override
    public Iterator<InternalRow> handleExpiredTimer(Object shard, TimerValues timers, ExpiredTimerInfo timer) {
        return advance(new HashMap<>(), timers);
    }

    private void open() {
        if (keys == null) {
            keys = UnsafeProjection.create(keyType);
            packers = new UnsafeProjection[types.length];
            for (int kind = 0; kind < types.length; kind++) {
                packers[kind] = types[kind] == null ? null : UnsafeProjection.create(types[kind]);
            }
            step.open();
        }
    }

    private void add(Map<ByteBuffer, List<Entry>> added, InternalRow row) {
        open();
        UnsafeRow key = keys.apply(row.getStruct(0, keyType.length()));
        boolean hasVersions = types[Entry.VERSION] != null;
        int kind = hasVersions && !row.isNullAt(2) ? Entry.VERSION : Entry.PENDING;
        UnsafeRow packed = packers[kind].apply(row.getStruct(hasVersions ? 2 + kind : 2, types[kind].length()));
        ByteBuffer name = ByteBuffer.wrap(key.copy().getBytes());
        added.computeIfAbsent(name, unused -> new ArrayList<>()).add(Entry.of(row.getLong(1), kind, packed));
    }

    private Iterator<InternalRow> advance(Map<ByteBuffer, List<Entry>> added, TimerValues timers) {
        open();
        Output output = new Output();
        long watermark = Math.multiplyExact(timers.getCurrentWatermarkInMs(), MICROS);
        long waitedFor = wake.exists() ? wake.get() : Step.NEVER;
        long next = waitedFor;
        if (waitedFor <= watermark) {
            next = advanceAll(added, watermark, output);
        }
        for (Map.Entry<ByteBuffer, List<Entry>> each : added.entrySet()) {
            byte[] key = each.getKey().array();
            byte[] stored = waitedFor <= watermark ? null : rows.getValue(key);
            next = Math.min(next, advanceKey(key, stored, each.getValue(), watermark, output));
        }
        setWake(waitedFor, next);
        return output.iterate();
    }

    /** Advance the stored keys that have rows or whose time has come; take these rows, and return the least time to wait for. */
    private long advanceAll(Map<ByteBuffer, List<Entry>> added, long watermark, Output output) {
        long next = Step.NEVER;
        Iterator<Tuple2<byte[], byte[]>> stored = rows.iterator();
        while (stored.hasNext()) {
            Tuple2<byte[], byte[]> each = stored.next();
            List<Entry> given = added.remove(ByteBuffer.wrap(each._1()));
            long own = Kept.readWake(each._2());
            if (given != null || own <= watermark) {
                own = advanceKey(each._1(), each._2(), given == null ? List.of() : given, watermark, output);
            }
            next = Math.min(next, own);
        }
        return next;
    }

    /** Advance a key and store it; return the time that it waits for. */
    private long advanceKey(byte[] key, byte[] stored, List<Entry> given, long watermark, Output output) {
        Kept kept = stored == null ? new Kept(key) : Kept.read(key, stored);
        kept.add(given);
        step.advance(kept, watermark, output);
        if (kept.entries.isEmpty()) {
            if (stored != null) {
                rows.removeKey(key);
            }
            return Step.NEVER;
        }
        long next = step.findWake(kept);
        rows.updateValue(key, kept.write(next));
        return next;
    }

    private void setWake(long waitedFor, long next) {
        if (next == waitedFor) {
            return;
        }
        if (waitedFor != Step.NEVER) {
            getHandle().deleteTimer(findTimer(waitedFor));
        }
        if (next == Step.NEVER) {
            wake.clear();
        } else {
            getHandle().registerTimer(findTimer(next));
            wake.update(next);
        }
    }

    /** Return the timer of a time; timers are in milliseconds and fire when the watermark is greater, not when it is equal. */
    private static long findTimer(long time) {
        return -Math.floorDiv(-time, MICROS) - 1;
    }
}
