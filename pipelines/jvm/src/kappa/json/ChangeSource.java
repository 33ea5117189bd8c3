package kappa.json;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Where a change is from: the blocks `source` and `transaction` of its event, as texts. */
final class ChangeSource {
    private static final int SCHEMA = 0, TABLE = 1, SNAPSHOT = 2, LSN = 3, SEQUENCE = 4, TX_ID = 5, GTID = 6, SERVER = 7, FILE = 8, POS = 9, TIME = 10;
    private static final String[] SOURCE = {
        "schema", "table", "snapshot", "lsn", "sequence", "txId", "gtid", "server_id", "file", "pos", "ts_ms"
    };
    private static final int ID = 0, ORDER = 1;
    private static final String[] TRANSACTION = {"id", "total_order"};
    private static final Pattern LSNS = Pattern.compile("\\[(?:null|\"[0-9]{1,18}\"),\"([0-9]{1,18})\"]");
    private static final Pattern NUMBERED = Pattern.compile("(?:[A-Za-z0-9_.-]*[A-Za-z_.-])?([0-9]{1,9})");
    private static final UTF8String INCREMENTAL = UTF8String.fromString("incremental"), DOT = UTF8String.fromString(".");
    private static final int FILE_BITS = 32, MOST_DIGITS = 18;

    private final StructReader sourceReader = new StructReader(texts(SOURCE), null, true, new Readers(null));
    private final StructReader transactionReader = new StructReader(texts(TRANSACTION), null, true, new Readers(null));
    private InternalRow source;
    private InternalRow transaction;

    private static StructType texts(String[] names) {
        StructType made = new StructType();
        for (String name : names) {
            made = made.add(name, DataTypes.StringType);
        }
        return made;
    }

    void clear() {
        source = null;
        transaction = null;
    }

    void readSource(Cursor cursor) {
        source = sourceReader.read(cursor);
    }

    void readTransaction(Cursor cursor) {
        transaction = transactionReader.read(cursor);
    }

    private UTF8String text(int field) {
        return source == null ? null : source.getUTF8String(field);
    }

    /** Return a whole number; null if there is no text. Other texts are unusual, such as one that Spark would round. */
    private static Long number(UTF8String text) {
        if (text == null) {
            return null;
        }
        int length = text.numBytes();
        if (length == 0 || length > MOST_DIGITS) {
            throw Unusual.RECORD;
        }
        long found = 0;
        for (int i = 0; i < length; i++) {
            int digit = text.getByte(i) - '0';
            if (digit < 0 || digit > 9) {
                throw Unusual.RECORD;
            }
            found = 10 * found + digit;
        }
        return found;
    }

    UTF8String snapshot() {
        return text(SNAPSHOT);
    }

    boolean isIncremental() {
        return INCREMENTAL.equals(text(SNAPSHOT));
    }

    /** Return the time of the change in milliseconds since 1970. */
    Long time() {
        return number(text(TIME));
    }

    long server() {
        Long found = number(text(SERVER));
        return found == null ? 0 : found;
    }

    UTF8String table() {
        UTF8String table = text(TABLE), schema = text(SCHEMA);
        return table == null || schema == null ? table : UTF8String.concatWs(DOT, schema, table);
    }

    UTF8String transactionId() {
        UTF8String own = text(GTID) == null ? text(TX_ID) : text(GTID);
        return own != null || transaction == null ? own : transaction.getUTF8String(ID);
    }

    Long transactionOrder() {
        return transaction == null ? null : number(transaction.getUTF8String(ORDER));
    }

    /** Return the position of the change in the log of its server. */
    Long position() {
        UTF8String lsn = text(LSN);
        if (lsn != null) {
            return number(lsn);
        }
        if (text(SEQUENCE) != null) {
            Matcher lsns = LSNS.matcher(text(SEQUENCE).toString());
            if (!lsns.matches()) {
                throw Unusual.RECORD;
            }
            return Long.valueOf(lsns.group(1));
        }
        Long place = number(text(POS));
        if (text(FILE) == null || place == null) {
            return null;
        }
        Matcher file = NUMBERED.matcher(text(FILE).toString());
        if (!file.matches()) {
            throw Unusual.RECORD;
        }
        return (Long.parseLong(file.group(1)) << FILE_BITS) + place;
    }
}
