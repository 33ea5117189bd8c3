package kappa.json;

import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A position in the bytes of a record.
 *
 * <p>It accepts only what RFC 8259 allows, and of that only what is within the limits that Jackson has by default. Everything else is
 * {@link Unusual}: Spark's parser accepts more than the RFC, such as texts in single quotes, and repairs text that is not UTF-8.
 */
final class Cursor {
    static final int MAX_NAME = 10_000;
    private static final int MAX_NUMBER = 200;
    private static final int MAX_DEPTH = 200;

    byte[] bytes;
    int at;
    private int end;
    private int depth;
    private UTF8String record;
    private boolean isValid;
    private byte[] scratch = new byte[256];

    /** Parts of the last number: its digits without the dot, and how many of them are behind it or removed by the exponent. */
    int start;

    long digits;
    int count;
    int scale;
    boolean isNegative;
    boolean isInteger;

    void open(UTF8String text) {
        record = text;
        isValid = false;
        depth = 0;
        if (text.getBaseObject() instanceof byte[] base) {
            bytes = base;
            at = (int) (text.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
        } else {
            bytes = text.getBytes();
            at = 0;
        }
        end = at + text.numBytes();
    }

    void close() {
        record = null;
        bytes = null;
    }

    /** Skip white space and return the byte that follows. */
    int token() {
        while (at < end) {
            int each = bytes[at];
            if (each > ' ') {
                return each;
            }
            if (each != ' ' && each != '\n' && each != '\r' && each != '\t') {
                break;
            }
            at++;
        }
        throw Unusual.RECORD;
    }

    void expect(char wanted) {
        if (token() != wanted) {
            throw Unusual.RECORD;
        }
        at++;
    }

    void enter() {
        at++;
        if (++depth > MAX_DEPTH) {
            throw Unusual.RECORD;
        }
    }

    void leave() {
        at++;
        depth--;
    }

    /** Return whether an element follows in an object or array that `close` ends, and leave it otherwise. */
    boolean hasNext(char close) {
        int next = token();
        if (next == ',') {
            at++;
            return true;
        }
        if (next != close) {
            throw Unusual.RECORD;
        }
        leave();
        return false;
    }

    /** Enter an object or array that `close` ends, and return whether it has elements. */
    boolean hasFirst(char close) {
        enter();
        if (token() != close) {
            return true;
        }
        leave();
        return false;
    }

    boolean isNull() {
        if (bytes[at] != 'n') {
            return false;
        }
        literal("null");
        return true;
    }

    void literal(String wanted) {
        if (end - at < wanted.length()) {
            throw Unusual.RECORD;
        }
        for (int i = 0; i < wanted.length(); i++) {
            if (bytes[at + i] != wanted.charAt(i)) {
                throw Unusual.RECORD;
            }
        }
        at += wanted.length();
    }

    /** Move behind a name if it is this one, with the quote that ends it. */
    boolean isName(byte[] wanted) {
        int from = at + 1;
        if (end - from < wanted.length || !Arrays.equals(bytes, from, from + wanted.length, wanted, 0, wanted.length)) {
            return false;
        }
        at = from + wanted.length;
        return true;
    }

    /** Move behind a text without escapes and return where it ends; it starts behind the current position. */
    int plain() {
        int i = at + 1;
        for (; i < end; i++) {
            int each = bytes[i];
            if (each == '"') {
                at = i + 1;
                return i;
            }
            if (each == '\\') {
                break;
            }
            check(each);
        }
        throw Unusual.RECORD;
    }

    private void check(int each) {
        if (each >= ' ') {
            return;
        }
        if (each >= 0) {
            throw Unusual.RECORD;
        }
        if (!isValid) {
            if (!record.isValid()) {
                throw Unusual.RECORD;
            }
            isValid = true;
        }
    }

    /** Move behind a text and return it. Without escapes it is a part of the record, not a copy. */
    UTF8String text() {
        int from = at + 1;
        for (int i = from; i < end; i++) {
            int each = bytes[i];
            if (each == '"') {
                at = i + 1;
                return UTF8String.fromBytes(bytes, from, i - from);
            }
            if (each == '\\') {
                return unescape(from, i);
            }
            check(each);
        }
        throw Unusual.RECORD;
    }

    private UTF8String unescape(int from, int escape) {
        int used = escape - from;
        if (scratch.length < used + 4) {
            scratch = new byte[Math.max(2 * scratch.length, 2 * used)];
        }
        System.arraycopy(bytes, from, scratch, 0, used);
        at = escape;
        while (at < end) {
            if (scratch.length < used + 4) {
                scratch = Arrays.copyOf(scratch, 2 * scratch.length);
            }
            int each = bytes[at++];
            if (each == '"') {
                UTF8String found = UTF8String.fromBytes(Arrays.copyOf(scratch, used));
                if (scratch.length > 1 << 20) {
                    scratch = new byte[256];
                }
                return found;
            }
            if (each == '\\') {
                used = write(codePoint(), used);
            } else {
                check(each);
                scratch[used++] = (byte) each;
            }
        }
        throw Unusual.RECORD;
    }

    /** Return what an escape stands for; half of a pair of surrogates is unusual. */
    private int codePoint() {
        int found = escape();
        if (!Character.isSurrogate((char) found)) {
            return found;
        }
        if (end - at < 6 || bytes[at] != '\\' || bytes[at + 1] != 'u') {
            throw Unusual.RECORD;
        }
        at++;
        int low = escape();
        if (!Character.isSurrogatePair((char) found, (char) low)) {
            throw Unusual.RECORD;
        }
        return Character.toCodePoint((char) found, (char) low);
    }

    private int escape() {
        if (at >= end) {
            throw Unusual.RECORD;
        }
        switch (bytes[at++]) {
            case '"':
                return '"';
            case '\\':
                return '\\';
            case '/':
                return '/';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                return hexadecimal();
            default:
                throw Unusual.RECORD;
        }
    }

    private int hexadecimal() {
        if (end - at < 4) {
            throw Unusual.RECORD;
        }
        int found = 0;
        for (int i = 0; i < 4; i++) {
            int digit = bytes[at] < 0 ? -1 : Character.digit(bytes[at], 16);
            if (digit < 0) {
                throw Unusual.RECORD;
            }
            found = 16 * found + digit;
            at++;
        }
        return found;
    }

    private int write(int point, int used) {
        if (point < 0x80) {
            scratch[used++] = (byte) point;
        } else if (point < 0x800) {
            scratch[used++] = (byte) (0xC0 | point >> 6);
            scratch[used++] = (byte) (0x80 | point & 0x3F);
        } else if (point < 0x10000) {
            scratch[used++] = (byte) (0xE0 | point >> 12);
            scratch[used++] = (byte) (0x80 | point >> 6 & 0x3F);
            scratch[used++] = (byte) (0x80 | point & 0x3F);
        } else {
            scratch[used++] = (byte) (0xF0 | point >> 18);
            scratch[used++] = (byte) (0x80 | point >> 12 & 0x3F);
            scratch[used++] = (byte) (0x80 | point >> 6 & 0x3F);
            scratch[used++] = (byte) (0x80 | point & 0x3F);
        }
        return used;
    }

    /** Move behind a number and keep its parts. */
    void number() {
        start = at;
        isNegative = bytes[at] == '-';
        digits = 0;
        count = 0;
        if (isNegative) {
            at++;
        }
        if (at < end && bytes[at] == '0') {
            at++;
            count = 1;
            if (at < end && isDigit(bytes[at])) {
                throw Unusual.RECORD;
            }
        } else {
            readDigits();
        }
        isInteger = true;
        scale = 0;
        if (at < end && bytes[at] == '.') {
            at++;
            isInteger = false;
            scale = readDigits();
        }
        if (at < end && (bytes[at] | 0x20) == 'e') {
            at++;
            isInteger = false;
            scale -= exponent();
        }
        if (at - start > MAX_NUMBER) {
            throw Unusual.RECORD;
        }
    }

    private int readDigits() {
        int from = at;
        long found = digits;
        while (at < end && isDigit(bytes[at])) {
            found = 10 * found + (bytes[at++] - '0');
        }
        if (at == from) {
            throw Unusual.RECORD;
        }
        digits = found;
        count += at - from;
        return at - from;
    }

    private int exponent() {
        boolean isMinus = at < end && bytes[at] == '-';
        if (at < end && (bytes[at] == '-' || bytes[at] == '+')) {
            at++;
        }
        int from = at;
        int found = 0;
        while (at < end && isDigit(bytes[at])) {
            found = 10 * found + (bytes[at++] - '0');
        }
        if (at == from || at - from > 4) {
            throw Unusual.RECORD;
        }
        return isMinus ? -found : found;
    }

    private static boolean isDigit(int each) {
        return each >= '0' && each <= '9';
    }

    /** Return the last number as it is written. */
    @SuppressWarnings("deprecation")
    String written() {
        return new String(bytes, 0, start, at - start);
    }

    /** Move behind a number that is whole, and return it. Jackson makes another one of -0 than of 0 in some places. */
    long whole() {
        number();
        if (!isInteger || count > 19 || isNegative && digits == 0) {
            throw Unusual.RECORD;
        }
        if (count < 19) {
            return isNegative ? -digits : digits;
        }
        try {
            return Long.parseLong(written());
        } catch (NumberFormatException beyond) {
            throw Unusual.RECORD;
        }
    }

    /** Move behind a value of any kind. */
    void skip() {
        switch (token()) {
            case '{':
                if (hasFirst('}')) {
                    do {
                        skipName();
                        expect(':');
                        skip();
                    } while (hasNext('}'));
                }
                break;
            case '[':
                if (hasFirst(']')) {
                    do {
                        skip();
                    } while (hasNext(']'));
                }
                break;
            case '"':
                skipText();
                break;
            case 't':
                literal("true");
                break;
            case 'f':
                literal("false");
                break;
            case 'n':
                literal("null");
                break;
            default:
                number();
        }
    }

    /** Move behind an object or array and return its text, if it is written as Jackson writes it: then Spark's parser returns the same text. */
    UTF8String document() {
        int from = at;
        skip();
        boolean isText = false;
        for (int i = from; i < at; i++) {
            int each = bytes[i];
            isText ^= each == '"';
            boolean isMinusZero = each == '-' && bytes[i + 1] == '0';
            boolean isExponent = (each | 0x20) == 'e' && isDigit(bytes[i - 1]);
            if (each == '\\' || !isText && (each <= ' ' || each == '.' || isMinusZero || isExponent)) {
                throw Unusual.RECORD;
            }
        }
        return UTF8String.fromBytes(bytes, from, at - from);
    }

    private void skipName() {
        if (token() != '"') {
            throw Unusual.RECORD;
        }
        int from = at;
        skipText();
        if (at - from > MAX_NAME) {
            throw Unusual.RECORD;
        }
    }

    private void skipText() {
        at++;
        while (at < end) {
            int each = bytes[at++];
            if (each == '"') {
                return;
            }
            if (each == '\\') {
                escape();
            } else {
                check(each);
            }
        }
        throw Unusual.RECORD;
    }
}
