package kappa.state;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.Iterator;

/** Stores the row of a table and finds it for events. Rows are (key, event, order, body): a change of the table if the event is NULL. */
final class Find extends RowStep {
    private static final long serialVersionUID = 1L;
    private static final int EVENT = 1, ORDER = 2, BODY = 3;

    Find(boolean hasVersions) {
        super(hasVersions);
    }

    @Override
    Iterator<InternalRow> advance(UTF8String key, Iterator<InternalRow> rows) {
        List<Change> changes = new ArrayList<>();
        List<InternalRow> output = new ArrayList<>();
        List<UTF8String> events = new ArrayList<>();
        while (rows.hasNext()) {
            InternalRow each = rows.next();
            if (each.isNullAt(EVENT)) {
                changes.add(read(each, ORDER, null, BODY));
            } else {
                events.add(Change.copyText(each, EVENT));
            }
        }
        Change row = find();
        Change last = Change.findNewest(row, changes);
        if (last != null && (last.body() != null || row != null)) {
            keep(last);
        }
        UTF8String found = last != null ? last.body() : row == null ? null : row.body();
        events.forEach(event -> output.add(row(event, found)));
        return iterate(output);
    }
}
