package kappa.json;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What a plan calls for each change event of Debezium, in place of the expressions that Python builds: the reference.
 *
 * <p>An event is read here if that certainly gives what the reference gives, and it has no error. The reference reads all others. A task has an
 * object of its own.
 */
public final class ChangeReader implements Serializable {
    private static final long serialVersionUID = 1L;
    private static final Names FIELDS = new Names(List.of("before", "after", "source", "transaction", "op", "payload"));
    private static final int BEFORE = 0, AFTER = 1, SOURCE = 2, TRANSACTION = 3, OP = 4, PAYLOAD = 5;
    private static final String WRAPPER = "payload";

    /** What is read: the declared columns, and what describes a change. */
    record Format(
            String[] names, DataType[] types, String[] units, String[] described, boolean hasTextDecimals, boolean hasTruncations, String zone,
            String corrupt) implements Serializable {
        private static final long serialVersionUID = 1L;
    }

    private final Format format;
    private final Reference reference;

    /** The reference as Python has built it, over the arguments of a call: for fingerprints of state. */
    private final transient Expression built;

    private transient Cursor cursor;
    private transient ChangeRow row;
    private transient ChangeRow before;
    private transient ChangeRow key;
    private transient ChangeSource source;
    private transient UTF8String op;
    private transient int beforeAt;

    ChangeReader(Format format, Reference reference, Expression built) {
        this.format = format;
        this.reference = reference;
        this.built = built;
    }

    /** Return what Python has built, in place of a call of this object. */
    public Expression reference(Invoke call) {
        return Reference.replace(built, each -> each instanceof BoundReference argument ? call.arguments().apply(argument.ordinal()) : null);
    }

    /** Return the columns of an event, and its error. */
    public InternalRow evaluate(byte[] key, byte[] value, long offset) {
        InternalRow found = find(key, value, offset);
        return found == null ? reference.evaluate(key, value, offset) : found;
    }

    /** Return whether an event is read without the reference. */
    public boolean isRead(byte[] key, byte[] value, long offset) {
        return find(key, value, offset) != null;
    }

    private InternalRow find(byte[] key, byte[] value, long offset) {
        if (cursor == null) {
            compile();
        }
        try {
            return read(key, value, offset);
        } catch (Unusual record) {
            return null;
        } finally {
            cursor.close();
        }
    }

    private void compile() {
        row = newRow();
        before = newRow();
        key = newRow();
        source = new ChangeSource();
        cursor = new Cursor();
    }

    private ChangeRow newRow() {
        Reader[] readers = new Reader[format.names.length];
        for (int column = 0; column < readers.length; column++) {
            readers[column] = ChangeColumns.build(
                    format.types[column], format.hasTextDecimals, format.units[column], format.zone, format.corrupt);
        }
        return new ChangeRow(format.names, readers);
    }

    private InternalRow read(byte[] keyBytes, byte[] value, long offset) {
        row.clear();
        source.clear();
        op = null;
        beforeAt = -1;
        boolean isDeletion = true;
        if (value != null) {
            open(value);
            readEvent(true);
            isDeletion = readBefore();
        }
        if (isDeletion && !row.isComplete() && keyBytes != null) {
            open(keyBytes);
            readKey(true);
            row.fill(key);
        }
        if (row.isEmpty()) {
            throw Unusual.RECORD;
        }
        return describe(isDeletion, offset);
    }

    private void open(byte[] bytes) {
        if (bytes.length > Support.LONGEST) {
            throw Unusual.RECORD;
        }
        cursor.open(UTF8String.fromBytes(bytes));
        cursor.token();
    }

    /** Read an event, or what is in its payload. A record with parts of an event in both places is unusual. */
    private void readEvent(boolean isOutside) {
        if (cursor.bytes[cursor.at] != '{' || !cursor.hasFirst('}')) {
            throw Unusual.RECORD;
        }
        int next = 0;
        int seen = 0;
        do {
            int field = FIELDS.find(cursor, next);
            cursor.expect(':');
            cursor.token();
            if (field < 0 || field == PAYLOAD && !isOutside) {
                cursor.skip();
                continue;
            }
            if ((seen & 1 << field) != 0 || (seen & 1 << PAYLOAD) != 0 || field == PAYLOAD && seen != 0) {
                throw Unusual.RECORD;
            }
            seen |= 1 << field;
            readPart(field);
            next = field + 1;
        } while (cursor.hasNext('}'));
    }

    private void readPart(int field) {
        if (field == PAYLOAD) {
            readEvent(false);
        } else if (cursor.isNull()) {
            return;
        } else if (field == OP) {
            if (cursor.bytes[cursor.at] != '"') {
                throw Unusual.RECORD;
            }
            op = cursor.text();
        } else if (cursor.bytes[cursor.at] != '{') {
            throw Unusual.RECORD;
        } else if (field == BEFORE) {
            beforeAt = cursor.at;
            cursor.skip();
        } else if (field == AFTER) {
            row.read(cursor);
        } else if (field == SOURCE) {
            source.readSource(cursor);
        } else if (field == TRANSACTION) {
            source.readTransaction(cursor);
        }
    }

    /** Read the row before the change where it is needed, and return whether the change is a deletion. */
    private boolean readBefore() {
        if (op == null || op.numBytes() != 1 || "cudr".indexOf(op.getByte(0)) < 0) {
            throw Unusual.RECORD;
        }
        boolean isDeletion = op.getByte(0) == 'd';
        before.clear();
        if (beforeAt >= 0 && (isDeletion || Arrays.asList(format.described).contains("before"))) {
            cursor.at = beforeAt;
            before.read(cursor);
        }
        if (isDeletion) {
            row.clear();
            row.fill(before);
        }
        return isDeletion;
    }

    /** Read a key, or what is in its payload. One with columns in both places is unusual. */
    private void readKey(boolean isOutside) {
        int start = cursor.at;
        if (cursor.bytes[start] != '{') {
            throw Unusual.RECORD;
        }
        boolean isWrapped = isOutside && !Arrays.asList(format.names).contains(WRAPPER) && findPayload();
        if (isWrapped) {
            int payload = cursor.at;
            cursor.at = start;
            key.read(cursor);
            if (!key.isEmpty()) {
                throw Unusual.RECORD;
            }
            cursor.at = payload;
            key.read(cursor);
        } else {
            cursor.at = start;
            key.read(cursor);
        }
    }

    /** Move to the payload of a key and return whether it has one. */
    private boolean findPayload() {
        int found = -1;
        if (cursor.hasFirst('}')) {
            do {
                int field = FIELDS.find(cursor, PAYLOAD);
                cursor.expect(':');
                cursor.token();
                if (field == PAYLOAD && found >= 0 || field == PAYLOAD && cursor.bytes[cursor.at] != '{') {
                    throw Unusual.RECORD;
                }
                found = field == PAYLOAD ? cursor.at : found;
                cursor.skip();
            } while (cursor.hasNext('}'));
        }
        cursor.at = found;
        return found >= 0;
    }

    private InternalRow describe(boolean isDeletion, long offset) {
        int columns = row.length();
        Object[] made = row.write(columns + format.described.length);
        for (int i = 0; i < format.described.length; i++) {
            made[columns + i] = describe(format.described[i], isDeletion, offset);
        }
        return new GenericInternalRow(new Object[] {new GenericInternalRow(made), null});
    }

    private Object describe(String what, boolean isDeletion, long offset) {
        switch (what) {
            case "op":
                return op;
            case "deleted":
                return isDeletion;
            case "truncated":
                return false;
            case "version":
                return version(offset);
            case "before":
                return beforeAt < 0 ? null : new GenericInternalRow(before.write(before.length()));
            case "time":
                Long time = source.time();
                return time == null ? null : (Object) Times.ofMillis(time);
            case "snapshot":
                return source.snapshot();
            case "table":
                return source.table();
            case "position":
                return source.position();
            case "transaction":
                return source.transactionId();
            case "transaction_order":
                return source.transactionOrder();
            default:
                throw new IllegalStateException("no column " + what);
        }
    }

    private InternalRow version(long offset) {
        boolean isSnapshot = op != null && op.getByte(0) == 'r' && !source.isIncremental();
        Long time = format.hasTruncations ? source.time() : null;
        return new GenericInternalRow(
                new Object[] {source.server(), source.position(), isSnapshot, time, offset, row.unavailable()});
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof ChangeReader reader && reference.equals(reader.reference);
    }

    @Override
    public int hashCode() {
        return reference.hashCode();
    }

    @Override
    public String toString() {
        return "kappa.json.ChangeReader";
    }
}
