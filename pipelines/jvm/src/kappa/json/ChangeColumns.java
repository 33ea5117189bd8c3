package kappa.json;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.nio.charset.StandardCharsets;
import java.time.ZoneId;
import java.util.Arrays;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * Makes readers of the columns of change events, as `debezium_types` in Python reads their texts. Each takes only what certainly has that value;
 * the rest is unusual. A reader returns null for a document that is null, and `UNAVAILABLE` for a placeholder.
 */
final class ChangeColumns {
    static final Object UNAVAILABLE = new Object();
    private static final String NAME = "__debezium_unavailable_value";
    private static final byte[][] PLACEHOLDERS = {
        bytes(NAME), bytes("X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="), bytes("[\"" + NAME + "\"]"), bytes("{\"" + NAME + "\":\"" + NAME + "\"}")
    };
    private static final UTF8String NULL_DOCUMENT = UTF8String.fromString("null");

    private ChangeColumns() {}

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Return the reader of a column of a supported type; `unit` is that of its numbers if it is a time, `zone` and `corrupt` are settings of the session. */
    static Reader build(DataType type, boolean hasTextDecimals, String unit, String zone, String corrupt) {
        if (Support.isDocument(type)) {
            return new Documents(new JsonToStructsEvaluator(noOptions(), type, corrupt, Option.apply(zone), false));
        }
        if (type instanceof DecimalType decimal) {
            return hasTextDecimals ? new TextDecimals(decimal) : new EncodedDecimals(decimal);
        }
        if (type.equals(DataTypes.TimestampType) || type.equals(DataTypes.TimestampNTZType)) {
            return new Moments(unit, ZoneId.of(zone, ZoneId.SHORT_IDS), type.equals(DataTypes.TimestampType));
        }
        if (type.equals(DataTypes.StringType)) {
            return new Texts();
        }
        if (type.equals(DataTypes.BooleanType)) {
            return new Booleans();
        }
        if (type.equals(DataTypes.DateType)) {
            return new Days();
        }
        if (type.equals(DataTypes.BinaryType)) {
            return new Bytes();
        }
        boolean isFloat = type.equals(DataTypes.FloatType);
        return isFloat || type.equals(DataTypes.DoubleType) ? new Floating(isFloat) : Readers.buildPlain(type);
    }

    @SuppressWarnings("unchecked")
    private static scala.collection.immutable.Map<String, String> noOptions() {
        return (scala.collection.immutable.Map<String, String>) (Object) scala.collection.immutable.Map$.MODULE$.empty();
    }

    private static boolean isPlaceholder(byte[] bytes, int from, int to) {
        for (byte[] each : PLACEHOLDERS) {
            if (each.length == to - from && Arrays.equals(bytes, from, to, each, 0, each.length)) {
                return true;
            }
        }
        return false;
    }

    private static boolean isPlaceholder(UTF8String text) {
        int length = text.numBytes();
        for (byte[] each : PLACEHOLDERS) {
            if (each.length == length) {
                return text.equals(UTF8String.fromBytes(each));
            }
        }
        return false;
    }

    /** Reads texts without escapes, or what is not a text. */
    private abstract static class Plain extends Reader {
        @Override
        final Object read(Cursor cursor) {
            if (cursor.bytes[cursor.at] != '"') {
                return other(cursor);
            }
            int from = cursor.at + 1;
            int to = cursor.plain();
            return isPlaceholder(cursor.bytes, from, to) ? UNAVAILABLE : text(cursor.bytes, from, to);
        }

        Object other(Cursor cursor) {
            throw Unusual.RECORD;
        }

        Object text(byte[] bytes, int from, int to) {
            throw Unusual.RECORD;
        }
    }

    private static class Texts extends Reader {
        private final Reader plain = Readers.buildPlain(DataTypes.StringType);

        @Override
        final Object read(Cursor cursor) {
            int first = cursor.bytes[cursor.at];
            UTF8String found = first == '{' || first == '[' ? cursor.document() : (UTF8String) plain.read(cursor);
            return isPlaceholder(found) ? UNAVAILABLE : convert(found);
        }

        Object convert(UTF8String text) {
            return text;
        }
    }

    private static final class Documents extends Texts {
        private final JsonToStructsEvaluator spark;

        Documents(JsonToStructsEvaluator spark) {
            this.spark = spark;
        }

        @Override
        Object convert(UTF8String text) {
            return text.equals(NULL_DOCUMENT) ? null : Unusual.orFail(spark.evaluate(text));
        }
    }

    private static final class Booleans extends Plain {
        @Override
        Object other(Cursor cursor) {
            switch (cursor.bytes[cursor.at]) {
                case 't':
                    cursor.literal("true");
                    return true;
                case 'f':
                    cursor.literal("false");
                    return false;
                default:
                    long found = cursor.whole();
                    if (found != 0 && found != 1) {
                        throw Unusual.RECORD;
                    }
                    return found == 1;
            }
        }
    }

    /** Numbers with a fraction. Spark may write them from a double, so a float is the same only if it is that of the double. */
    private static final class Floating extends Plain {
        private static final Set<String> NOT_FINITE = Set.of("NaN", "Infinity", "-Infinity");
        private final boolean isFloat;
        private final Reader doubles = Readers.buildPlain(DataTypes.DoubleType);

        Floating(boolean isFloat) {
            this.isFloat = isFloat;
        }

        @Override
        Object other(Cursor cursor) {
            double found = (Double) doubles.read(cursor);
            if (!Double.isFinite(found)) {
                throw Unusual.RECORD;
            }
            if (!isFloat) {
                return found;
            }
            float single = Float.parseFloat(cursor.written());
            if (!Float.isFinite(single) || single != Float.parseFloat(Double.toString(found))) {
                throw Unusual.RECORD;
            }
            return single;
        }

        @Override
        Object text(byte[] bytes, int from, int to) {
            String text = new String(bytes, from, to - from, StandardCharsets.US_ASCII);
            if (!NOT_FINITE.contains(text)) {
                throw Unusual.RECORD;
            }
            return isFloat ? (Object) Float.parseFloat(text) : (Object) Double.parseDouble(text);
        }
    }

    private static final class Days extends Plain {
        @Override
        Object other(Cursor cursor) {
            long found = cursor.whole();
            if (found != (int) found) {
                throw Unusual.RECORD;
            }
            return (int) found;
        }

        @Override
        Object text(byte[] bytes, int from, int to) {
            long found = Times.isDate(to - from) ? Times.parseDate(bytes, from) : Times.NONE;
            if (found == Times.NONE) {
                throw Unusual.RECORD;
            }
            return (int) found;
        }
    }

    private static final class Moments extends Plain {
        private static final long FIRST = -62_135_596_800L * Times.MICROS;
        private static final long LAST = 253_402_300_800L * Times.MICROS - 1;
        private static final int SHORTEST = 10;
        private final String unit;
        private final ZoneId zone;
        private final long fixedOffset;
        private final boolean isZoned;

        Moments(String unit, ZoneId zone, boolean isZoned) {
            this.unit = unit;
            this.zone = zone;
            this.isZoned = isZoned;
            fixedOffset = Times.fixedOffset(zone);
        }

        @Override
        Object other(Cursor cursor) {
            long number = cursor.whole();
            long found = switch (unit) {
                case "Milliseconds" -> Times.ofMillis(number);
                case "Nanoseconds" -> Math.floorDiv(number, 1000L);
                default -> number;
            };
            // Spark converts a time without zone from the one of the session.
            if (found < FIRST || found > LAST || !isZoned && !Times.isUtc(zone)) {
                throw Unusual.RECORD;
            }
            return found;
        }

        /** Return the time of a text that begins with a year, so that it is not a number. */
        @Override
        Object text(byte[] bytes, int from, int to) {
            boolean isDated = to - from >= SHORTEST && bytes[from + 4] == '-';
            long found = isZoned && isDated ? Times.parse(bytes, from, to, zone, fixedOffset) : Times.NONE;
            if (found == Times.NONE) {
                throw Unusual.RECORD;
            }
            return found;
        }
    }

    private static final class Bytes extends Plain {
        @Override
        Object text(byte[] bytes, int from, int to) {
            return Readers.decode(bytes, from, to);
        }
    }

    private abstract static class Decimals extends Plain {
        private static final int MOST_DIGITS = 38;
        private final DecimalType type;

        Decimals(DecimalType type) {
            this.type = type;
        }

        final int places() {
            return type.scale();
        }

        /** Return a value of the type, rounded as Spark rounds when it casts a text. */
        final Decimal fit(BigDecimal found) {
            BigDecimal rounded = found.setScale(type.scale(), RoundingMode.HALF_UP);
            if (found.precision() - found.scale() > MOST_DIGITS || rounded.precision() > type.precision()) {
                throw Unusual.RECORD;
            }
            return Decimal.apply(rounded, type.precision(), type.scale());
        }
    }

    /** Unscaled numbers in Base64, with their scale beside them if the column of the database has none. */
    private static final class EncodedDecimals extends Decimals {
        private static final Names FIELDS = new Names(java.util.List.of("scale", "value"));
        private static final int MOST_BYTES = 16;
        private static final int MOST_PLACES = 38;

        EncodedDecimals(DecimalType type) {
            super(type);
        }

        @Override
        Object text(byte[] bytes, int from, int to) {
            return fit(new BigDecimal(number(bytes, from, to), places()));
        }

        private static BigInteger number(byte[] bytes, int from, int to) {
            byte[] found = Readers.decode(bytes, from, to);
            BigInteger number = found.length == 0 || found.length > MOST_BYTES ? null : new BigInteger(found);
            // The text is a DECIMAL(38, 0) on its way.
            if (number == null || new BigDecimal(number).precision() > Decimals.MOST_DIGITS) {
                throw Unusual.RECORD;
            }
            return number;
        }

        @Override
        Object other(Cursor cursor) {
            if (cursor.bytes[cursor.at] != '{' || !cursor.hasFirst('}')) {
                throw Unusual.RECORD;
            }
            BigInteger number = null;
            long scale = Long.MIN_VALUE;
            int next = 0;
            do {
                int field = FIELDS.find(cursor, next++);
                cursor.expect(':');
                if (field == 0 && scale == Long.MIN_VALUE) {
                    cursor.token();
                    scale = cursor.whole();
                } else if (field == 1 && number == null && cursor.token() == '"') {
                    int from = cursor.at + 1;
                    number = number(cursor.bytes, from, cursor.plain());
                } else {
                    throw Unusual.RECORD;
                }
            } while (cursor.hasNext('}'));
            if (number == null || scale < -MOST_PLACES || scale > MOST_PLACES) {
                throw Unusual.RECORD;
            }
            return fit(new BigDecimal(number, (int) scale));
        }
    }

    /** Decimals as texts or numbers of at most so many digits that a double has them all. */
    private static final class TextDecimals extends Decimals {
        private static final int DIGITS_OF_DOUBLES = 15;
        private static final int DIGITS_OF_TEXTS = 38;

        TextDecimals(DecimalType type) {
            super(type);
        }

        @Override
        Object other(Cursor cursor) {
            cursor.number();
            boolean isShort = cursor.count <= DIGITS_OF_DOUBLES && cursor.scale >= 0 && cursor.scale <= DIGITS_OF_DOUBLES;
            if (!isShort || cursor.isNegative && cursor.digits == 0) {
                throw Unusual.RECORD;
            }
            return fit(BigDecimal.valueOf(cursor.isNegative ? -cursor.digits : cursor.digits, cursor.scale));
        }

        @Override
        Object text(byte[] bytes, int from, int to) {
            int digits = 0;
            int points = 0;
            for (int at = from; at < to; at++) {
                boolean isDigit = bytes[at] >= '0' && bytes[at] <= '9';
                digits += isDigit ? 1 : 0;
                boolean isSign = at == from && bytes[at] == '-';
                boolean isPoint = bytes[at] == '.' && at > from && at < to - 1 && points++ == 0;
                if (!isDigit && !isSign && !isPoint) {
                    throw Unusual.RECORD;
                }
            }
            if (digits == 0 || digits > DIGITS_OF_TEXTS) {
                throw Unusual.RECORD;
            }
            return fit(new BigDecimal(new String(bytes, from, to - from, StandardCharsets.US_ASCII)));
        }
    }
}
