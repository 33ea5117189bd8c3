package kappa.state;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.InterpretedOrdering;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** An as-of join: each final event with the newest version that is neither younger than it nor older than `maxAge` microseconds. */
final class AsOf implements Step {
    private static final long serialVersionUID = 1L;

    private final long maxAge;
    private final boolean keepsUnmatched;
    private final int columns;
    private final StructType version;
    private transient InterpretedOrdering ordering;
    private transient InternalRow none;

    /** `maxAge` is NEVER if versions have no limit. */
    AsOf(long maxAge, boolean keepsUnmatched, int columns, StructType version) {
        this.maxAge = maxAge;
        this.keepsUnmatched = keepsUnmatched;
        this.columns = columns;
        this.version = version;
    }

    @Override
    public void open() {
        List<DataType> types = new ArrayList<>();
        for (StructField each : version.fields()) {
            types.add(each.dataType());
        }
        ordering = InterpretedOrdering.forSchema(CollectionConverters.asScala(types).toSeq());
        none = new GenericInternalRow(version.length());
    }

    @Override
    public void advance(Kept kept, long watermark, Output output) {
        Entry newest = null;
        List<Entry> later = new ArrayList<>();
        for (Entry each : kept.entries) {
            if (each.time() > watermark) {
                later.add(each);
            } else if (each.kind() == Entry.VERSION) {
                newest = newest == null || !isGreater(newest, each) ? each : newest;
            } else {
                write(each, newest, output);
            }
        }
        kept.entries.clear();
        if (newest != null && maxAge < watermark - newest.time()) {
            newest = null;
        }
        if (newest != null) {
            kept.entries.add(newest);
        }
        kept.entries.addAll(later);
    }

    private void write(Entry event, Entry newest, Output output) {
        boolean isMatched = newest != null && event.time() - newest.time() <= maxAge;
        if (isMatched || keepsUnmatched) {
            output.add(new JoinedRow(event.row(columns), isMatched ? newest.row(version.length()) : none));
        }
    }

    /** Return whether a version wins over one that is not older. */
    private boolean isGreater(Entry known, Entry other) {
        return known.time() == other.time() && ordering.compare(known.row(version.length()), other.row(version.length())) > 0;
    }

    @Override
    public long findWake(Kept kept) {
        for (Entry each : kept.entries) {
            if (each.kind() == Entry.PENDING) {
                return each.time();
            }
        }
        long newest = kept.entries.get(kept.entries.size() - 1).time();
        return newest >= NEVER - maxAge - 1 ? NEVER : newest + maxAge + 1;
    }
}
