package kappa.state;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;

/** Stores each row of a table and what it refers to, and sends messages there. Rows are (id, to, order, body), messages (to, id, verb, known, body). */
final class Follow extends TableStep {
    private static final long serialVersionUID = 1L;
    private static final int TO = 1, ORDER = 2, BODY = 3;

    private final boolean hasVersions;
    private transient ValueState<byte[]> stored;

    Follow(boolean hasVersions) {
        this.hasVersions = hasVersions;
    }

    @Override
    public void init(OutputMode mode, TimeMode time) {
        stored = openValue("row");
    }

    @Override
    Iterator<InternalRow> advance(UTF8String key, Iterator<InternalRow> rows) {
        List<Change> changes = new ArrayList<>();
        while (rows.hasNext()) {
            InternalRow each = rows.next();
            UTF8String to = each.isNullAt(TO) ? UTF8String.EMPTY_UTF8 : Change.copyText(each, TO);
            changes.add(readChange(each, ORDER, hasVersions, to, Change.copyText(each, BODY)));
        }
        Change old = Change.unpack(stored.get());
        Change last = Change.findNewest(old, changes);
        return iterate(last == null || last.body() == null && old == null ? List.of() : follow(key, old, last));
    }

    private List<InternalRow> follow(UTF8String key, Change old, Change last) {
        store(stored, last);
        if (last.body() == null) {
            return List.of(row(old.to(), key, DROP, true, old.body()));
        }
        InternalRow put = row(last.to(), key, PUT, old != null, last.body());
        return old == null || old.to().equals(last.to()) ? List.of(put) : List.of(row(old.to(), key, LEAVE, true, last.to()), put);
    }
}
