package kappa.state;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.jdk.javaapi.CollectionConverters;

/** The output rows of a group: those that are there, then those that are made while Spark takes them. */
final class Output {
    private final List<InternalRow> rows = new ArrayList<>();
    private final List<Iterator<InternalRow>> later = new ArrayList<>();

    void add(InternalRow row) {
        rows.add(row);
    }

    /** Add rows that may be too many to be in memory. They must not depend on the state. */
    void add(Iterator<InternalRow> made) {
        later.add(made);
    }

    scala.collection.Iterator<InternalRow> iterate() {
        scala.collection.Iterator<InternalRow> first = CollectionConverters.asScala(rows.iterator());
        return later.isEmpty()
                ? first
                : first.concat(() -> CollectionConverters.asScala(later.iterator()).flatMap(CollectionConverters::asScala));
    }
}
