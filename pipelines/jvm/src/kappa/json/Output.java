package kappa.json;

import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/** JSON that is being written, as Jackson writes it. Its bytes are used again for each record. */
final class Output {
    private static final int SMALL = 1024;
    private static final int LARGE = 1 << 20;
    /** What stands for a byte in a text, where it does not stand for itself. */
    private static final byte[][] ESCAPES = new byte[128][];

    static {
        for (int each = 0; each < ' '; each++) {
            ESCAPES[each] = String.format("\\u%04X", each).getBytes();
        }
        String plain = "\"\\\b\f\n\r\t";
        String letters = "\"\\bfnrt";
        for (int i = 0; i < plain.length(); i++) {
            ESCAPES[plain.charAt(i)] = ("\\" + letters.charAt(i)).getBytes();
        }
    }

    private byte[] bytes = new byte[SMALL];
    private int used;

    /** Return what was written, and start anew. */
    UTF8String take() {
        byte[] taken = Arrays.copyOf(bytes, used);
        reset();
        return UTF8String.fromBytes(taken);
    }

    void reset() {
        used = 0;
        if (bytes.length > LARGE) {
            bytes = new byte[SMALL];
        }
    }

    byte[] copy() {
        return Arrays.copyOf(bytes, used);
    }

    private void reserve(int more) {
        if (bytes.length - used < more) {
            bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, Math.addExact(used, more)));
        }
    }

    void add(char each) {
        reserve(1);
        bytes[used++] = (byte) each;
    }

    void add(byte[] more) {
        reserve(more.length);
        System.arraycopy(more, 0, bytes, used, more.length);
        used += more.length;
    }

    @SuppressWarnings("deprecation")
    void add(String ascii) {
        int length = ascii.length();
        reserve(length);
        ascii.getBytes(0, length, bytes, used);
        used += length;
    }

    void quote(String ascii) {
        add('"');
        add(ascii);
        add('"');
    }

    void number(long value) {
        if (value == Long.MIN_VALUE) {
            add(Long.toString(value));
            return;
        }
        reserve(20);
        if (value < 0) {
            bytes[used++] = '-';
        }
        long left = Math.abs(value);
        int length = 1;
        for (long rest = left / 10; rest > 0; rest /= 10) {
            length++;
        }
        digits(left, length);
    }

    /** Write a number with so many digits; there must be room for them. */
    private void digits(long value, int length) {
        long left = value;
        for (int i = used + length - 1; i >= used; i--) {
            bytes[i] = (byte) ('0' + left % 10);
            left /= 10;
        }
        used += length;
    }

    /** Write a date of a year from 1 to 9999. */
    void date(int year, int month, int day) {
        reserve(10);
        digits(year, 4);
        bytes[used++] = '-';
        digits(month, 2);
        bytes[used++] = '-';
        digits(day, 2);
    }

    /** Write a time of day in UTC with so many places of its seconds. */
    void time(int second, long micros, int places) {
        reserve(18);
        bytes[used++] = 'T';
        digits(second / 3600, 2);
        bytes[used++] = ':';
        digits(second / 60 % 60, 2);
        bytes[used++] = ':';
        digits(second % 60, 2);
        bytes[used++] = '.';
        digits(places == 3 ? micros / 1000 : micros, places);
        bytes[used++] = 'Z';
    }

    /** Write a text in quotes. What is not UTF-8 in it is replaced as Java does. */
    void text(UTF8String text) {
        byte[] from = text.getBaseObject() instanceof byte[] base ? base : text.getBytes();
        int at = from == text.getBaseObject() ? (int) (text.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET) : 0;
        int end = at + text.numBytes();
        int start = used;
        reserve(Math.addExact(text.numBytes(), 2));
        bytes[used++] = '"';
        boolean isAscii = true;
        int copied = at;
        for (; at < end; at++) {
            int each = from[at];
            if (each < 0) {
                isAscii = false;
            } else if (ESCAPES[each] != null) {
                copy(from, copied, at, end);
                add(ESCAPES[each]);
                copied = at + 1;
            }
        }
        copy(from, copied, end, end);
        add('"');
        if (!isAscii && !text.isValid()) {
            used = start;
            text(UTF8String.fromString(text.toString()));
        }
    }

    /** Copy a part of a text that ends at `end`, and keep room for the rest of it. */
    private void copy(byte[] from, int start, int to, int end) {
        reserve(end - start + 1);
        System.arraycopy(from, start, bytes, used, to - start);
        used += to - start;
    }
}
