package kappa.state;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;

/**
 * Stores the right row of a key and the left rows that refer to it, and joins them.
 *
 * <p>Rows are (to, id, verb, known, body, order): a change of the right row if the verb is NULL, else a message of `Follow`. Output rows are
 * (body, found, deleted).
 */
final class Match extends TableStep {
    private static final long serialVersionUID = 1L;
    private static final int ID = 1, VERB = 2, KNOWN = 3, BODY = 4, ORDER = 5;

    private final boolean hasVersions, inner;
    private transient ValueState<byte[]> right;
    private transient MapState<byte[], byte[]> lefts;

    /** With `inner`, a left row without a right row is deleted. */
    Match(boolean hasVersions, boolean inner) {
        this.hasVersions = hasVersions;
        this.inner = inner;
    }

    @Override
    public void init(OutputMode mode, TimeMode time) {
        right = openValue("right");
        lefts = openMap("lefts");
    }

    /** A left row of this batch, and whether it existed before. */
    private record Left(UTF8String body, boolean isKnown) {}

    @Override
    Iterator<InternalRow> advance(UTF8String key, Iterator<InternalRow> rows) {
        List<InternalRow> output = new ArrayList<>();
        List<Change> changes = new ArrayList<>();
        Map<UTF8String, Left> touched = new HashMap<>();
        while (rows.hasNext()) {
            InternalRow each = rows.next();
            if (each.isNullAt(VERB)) {
                changes.add(readChange(each, ORDER, hasVersions, null, Change.copyText(each, BODY)));
            } else {
                take(each, touched, output);
            }
        }
        Change old = Change.unpack(right.get());
        Change change = Change.findNewest(old, changes);
        UTF8String found = (change != null ? change : old) == null ? null : (change != null ? change : old).body();
        for (Left each : touched.values()) {
            add(output, each.body, found, each.isKnown);
        }
        if (change == null) {
            return iterate(output);
        }
        if (change.body() != null || old != null) {
            store(right, change);
        }
        // Left rows may be many: they are joined while Spark takes the output.
        return iterate(output).concat(() -> lefts.iterator().filter(each -> !touched.containsKey(UTF8String.fromBytes(each._1()))).flatMap(each -> {
            List<InternalRow> joined = new ArrayList<>(1);
            add(joined, UTF8String.fromBytes(each._2()), found, old != null);
            return iterate(joined);
        }));
    }

    /** Take a message; there is one for a row. */
    private void take(InternalRow message, Map<UTF8String, Left> touched, List<InternalRow> output) {
        UTF8String id = Change.copyText(message, ID), verb = message.getUTF8String(VERB), body = Change.copyText(message, BODY);
        if (verb.equals(PUT)) {
            lefts.updateValue(id.getBytes(), body.getBytes());
            touched.put(id, new Left(body, message.getBoolean(KNOWN)));
            return;
        }
        lefts.removeKey(id.getBytes());
        if (verb.equals(DROP)) {
            output.add(row(body, null, true));
        }
    }

    private void add(List<InternalRow> output, UTF8String body, UTF8String found, boolean isKnown) {
        if (found != null || !inner) {
            output.add(row(body, found, false));
        } else if (isKnown) {
            output.add(row(body, null, true));
        }
    }
}
