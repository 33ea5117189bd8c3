package kappa.state;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;

/** Stores each row of a table and what it refers to, and sends messages there. Rows are (id, to, order, body), messages (to, id, verb, known, body). */
final class Follow extends RowStep {
    private static final long serialVersionUID = 1L;
    private static final int TO = 1, ORDER = 2, BODY = 3;

    Follow(boolean hasVersions) {
        super(hasVersions);
    }

    @Override
    Iterator<InternalRow> advance(UTF8String key, Iterator<InternalRow> rows) {
        List<Change> changes = new ArrayList<>();
        while (rows.hasNext()) {
            InternalRow each = rows.next();
            UTF8String to = each.isNullAt(TO) ? UTF8String.EMPTY_UTF8 : Change.copyText(each, TO);
            changes.add(read(each, ORDER, to, BODY));
        }
        Change old = find();
        Change last = Change.findNewest(old, changes);
        return iterate(last == null || last.body() == null && old == null ? List.of() : follow(key, old, last));
    }

    private List<InternalRow> follow(UTF8String key, Change old, Change last) {
        keep(last);
        if (last.body() == null) {
            return List.of(row(old.to(), key, DROP, true, old.body()));
        }
        InternalRow put = row(last.to(), key, PUT, old != null, last.body());
        return old == null || old.to().equals(last.to()) ? List.of(put) : List.of(row(old.to(), key, LEAVE, true, last.to()), put);
    }
}
