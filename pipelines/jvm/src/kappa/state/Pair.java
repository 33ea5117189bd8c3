package kappa.state;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * Stores the rows of both tables by the value that joins them, and pairs them. The rows of a side are read only if one of the other changes.
 *
 * <p>Rows are (value, side, id, verb, body), output rows (left body, right body, deleted). A pair has at most one output in a batch. Where both
 * rows of a pair move to the same value in one batch, the step of that value writes the pair, so it is not deleted.
 */
final class Pair extends TableStep {
    private static final long serialVersionUID = 1L;
    private static final int SIDE = 1, ID = 2, VERB = 3, BODY = 4;
    private static final UTF8String LEFT = UTF8String.fromString("left");

    private transient MapState<byte[], byte[]> lefts, rights;

    @Override
    public void init(OutputMode mode, TimeMode time) {
        lefts = openMap("lefts");
        rights = openMap("rights");
    }

    /** The messages to the rows of a side: those that are put, and those that are gone, with the value that they have now if they moved. */
    private record Side(MapState<byte[], byte[]> stored, Map<UTF8String, UTF8String> put, Map<UTF8String, UTF8String> gone) {
        Side(MapState<byte[], byte[]> stored) {
            this(stored, new HashMap<>(), new HashMap<>());
        }

        void take(UTF8String id, UTF8String verb, UTF8String body) {
            if (verb.equals(PUT)) {
                put.put(id, body);
            } else {
                gone.put(id, verb.equals(LEAVE) ? body : null);
            }
        }

        UTF8String find(UTF8String id) {
            byte[] body = stored.getValue(id.getBytes());
            return body == null ? null : UTF8String.fromBytes(body);
        }

        Map<UTF8String, UTF8String> read() {
            Map<UTF8String, UTF8String> rows = new HashMap<>();
            Iterator<Tuple2<byte[], byte[]>> each = stored.iterator();
            while (each.hasNext()) {
                Tuple2<byte[], byte[]> row = each.next();
                rows.put(UTF8String.fromBytes(row._1()), UTF8String.fromBytes(row._2()));
            }
            return rows;
        }

        void store() {
            gone.keySet().forEach(id -> stored.removeKey(id.getBytes()));
            put.forEach((id, body) -> stored.updateValue(id.getBytes(), body.getBytes()));
        }

        /** An empty value pairs nothing. */
        boolean hasGoneTo(UTF8String id, UTF8String value) {
            return value != null && value.numBytes() > 0 && value.equals(gone.get(id));
        }
    }

    @Override
    Iterator<InternalRow> advance(UTF8String value, Iterator<InternalRow> rows) {
        Side left = new Side(lefts), right = new Side(rights);
        while (rows.hasNext()) {
            InternalRow each = rows.next();
            Side side = each.getUTF8String(SIDE).equals(LEFT) ? left : right;
            side.take(Change.copyText(each, ID), each.getUTF8String(VERB), Change.copyText(each, BODY));
        }
        List<InternalRow> output = new ArrayList<>();
        delete(left, right, output);
        left.store();
        right.store();
        write(left, right, output);
        return iterate(output);
    }

    /** Write the deletions of pairs that were here and of which a row is gone. */
    private static void delete(Side left, Side right, List<InternalRow> output) {
        Map<UTF8String, UTF8String> others = left.gone.isEmpty() ? Map.of() : right.read();
        left.gone.forEach((id, value) -> {
            UTF8String body = others.isEmpty() ? null : left.find(id);
            others.forEach((other, found) -> {
                if (body != null && !right.hasGoneTo(other, value)) {
                    output.add(row(body, found, true));
                }
            });
        });
        Map<UTF8String, UTF8String> staying = right.gone.isEmpty() ? new HashMap<>() : left.read();
        staying.keySet().removeAll(left.gone.keySet());
        for (UTF8String other : right.gone.keySet()) {
            UTF8String found = staying.isEmpty() ? null : right.find(other);
            if (found != null) {
                staying.values().forEach(body -> output.add(row(body, found, true)));
            }
        }
    }

    /** Write the pairs of which a row has changed. */
    private static void write(Side left, Side right, List<InternalRow> output) {
        if (!left.put.isEmpty()) {
            right.read().values().forEach(found -> left.put.values().forEach(body -> output.add(row(body, found, false))));
        }
        if (!right.put.isEmpty()) {
            left.read().forEach((id, body) -> {
                if (!left.put.containsKey(id)) {
                    right.put.values().forEach(found -> output.add(row(body, found, false)));
                }
            });
        }
    }
}
