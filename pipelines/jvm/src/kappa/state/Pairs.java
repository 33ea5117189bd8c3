package kappa.state;

import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;

/** The pairs of the rows of one side with those of the other within a distance in time, both in the order of their times. */
final class Pairs implements Iterator<InternalRow> {
    private final List<Entry> rows;
    private final List<Entry> others;
    private final Shape shape;
    private int at;
    private int from;
    private int other;

    /** How rows are paired: others are from `before` to `after` microseconds from a row, which is of the left side or not. */
    record Shape(long before, long after, boolean isLeft, int columns, int columnsOfOthers) {}

    Pairs(List<Entry> rows, List<Entry> others, Shape shape) {
        this.rows = rows;
        this.others = others;
        this.shape = shape;
        find();
    }

    @Override
    public boolean hasNext() {
        return at < rows.size();
    }

    @Override
    public InternalRow next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        InternalRow row = rows.get(at).row(shape.columns), found = others.get(other).row(shape.columnsOfOthers);
        other++;
        if (!isInReach()) {
            at++;
            find();
        }
        return shape.isLeft ? new JoinedRow(row, found) : new JoinedRow(found, row);
    }

    /** Find the next row that has a pair, and the first one of it. */
    private void find() {
        for (; at < rows.size(); at++) {
            long first = Times.add(rows.get(at).time(), shape.before);
            while (from < others.size() && others.get(from).time() < first) {
                from++;
            }
            other = from;
            if (isInReach()) {
                return;
            }
        }
    }

    private boolean isInReach() {
        return other < others.size() && others.get(other).time() <= Times.add(rows.get(at).time(), shape.after);
    }
}
