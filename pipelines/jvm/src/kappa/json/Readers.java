package kappa.json;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.LegacyDateFormats;
import org.apache.spark.sql.catalyst.util.TimestampFormatter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Makes readers of types. Each takes only what Spark certainly reads as the same value; the rest is unusual. */
final class Readers {
    private final JSONOptions options;

    Readers(JSONOptions options) {
        this.options = options;
    }

    /** Return the reader of a supported type. Rows are reused where `isReused`: not within arrays and maps. */
    Reader build(DataType type, boolean isReused) {
        if (type instanceof StructType struct) {
            return new StructReader(struct, null, isReused, this);
        }
        if (type instanceof ArrayType array) {
            return new Elements(build(array.elementType(), false));
        }
        if (type instanceof MapType map) {
            return new Entries(build(map.valueType(), false));
        }
        if (type instanceof DecimalType decimal) {
            return new Decimals(decimal.precision(), decimal.scale());
        }
        if (type.equals(DataTypes.TimestampType)) {
            return options.timestampFormatInRead().isDefined() ? new Formatted(options) : new Timestamps(options.zoneId());
        }
        return buildPlain(type);
    }

    /** Return the reader of a type that needs no options. */
    static Reader buildPlain(DataType type) {
        if (type.equals(DataTypes.StringType)) {
            return new Texts();
        }
        if (type.equals(DataTypes.LongType)) {
            return new Longs();
        }
        if (type.equals(DataTypes.DoubleType)) {
            return new Doubles();
        }
        if (type.equals(DataTypes.FloatType)) {
            return new Floats();
        }
        if (type.equals(DataTypes.BooleanType)) {
            return new Booleans();
        }
        if (type.equals(DataTypes.DateType)) {
            return new Dates();
        }
        if (type.equals(DataTypes.BinaryType)) {
            return new Binaries();
        }
        return new Integers(type);
    }

    private static final class Texts extends Reader {
        @Override
        UTF8String read(Cursor cursor) {
            switch (cursor.bytes[cursor.at]) {
                case '"':
                    return cursor.text();
                case 't':
                    cursor.literal("true");
                    return UTF8String.fromString("true");
                case 'f':
                    cursor.literal("false");
                    return UTF8String.fromString("false");
                default:
                    long whole = cursor.whole();
                    return UTF8String.fromString(Long.toString(whole));
            }
        }
    }

    private static final class Longs extends Reader {
        @Override
        Long read(Cursor cursor) {
            return cursor.whole();
        }

        @Override
        void readInto(Cursor cursor, InternalRow row, int column) {
            row.setLong(column, cursor.whole());
        }
    }

    /** Whole numbers of at most 32 bits. */
    private static final class Integers extends Reader {
        private final DataType type;
        private final long least;
        private final long most;

        Integers(DataType type) {
            this.type = type;
            int bits = 8 * type.defaultSize();
            least = -1L << (bits - 1);
            most = -least - 1;
        }

        @Override
        Object read(Cursor cursor) {
            int found = find(cursor);
            if (type.equals(DataTypes.IntegerType)) {
                return found;
            }
            return type.equals(DataTypes.ShortType) ? (Object) (short) found : (Object) (byte) found;
        }

        @Override
        void readInto(Cursor cursor, InternalRow row, int column) {
            int found = find(cursor);
            if (type.equals(DataTypes.IntegerType)) {
                row.setInt(column, found);
            } else if (type.equals(DataTypes.ShortType)) {
                row.setShort(column, (short) found);
            } else {
                row.setByte(column, (byte) found);
            }
        }

        private int find(Cursor cursor) {
            long found = cursor.whole();
            if (found < least || found > most) {
                throw Unusual.RECORD;
            }
            return (int) found;
        }
    }

    private static final class Doubles extends Reader {
        /** Powers of ten that are exact. A quotient or product of two exact numbers is rounded once, so it is the nearest number. */
        private static final double[] TENS = {
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
            1e21, 1e22
        };

        private static final long EXACT = 1L << 53;

        @Override
        Double read(Cursor cursor) {
            return find(cursor);
        }

        @Override
        void readInto(Cursor cursor, InternalRow row, int column) {
            row.setDouble(column, find(cursor));
        }

        private static double find(Cursor cursor) {
            cursor.number();
            if (cursor.isInteger && (cursor.count > 18 || cursor.isNegative && cursor.digits == 0)) {
                throw Unusual.RECORD;
            }
            int scale = cursor.scale;
            if (cursor.count > 18 || !cursor.isInteger && cursor.digits > EXACT || Math.abs(scale) >= TENS.length) {
                return Double.parseDouble(cursor.written());
            }
            double found = scale < 0 ? cursor.digits * TENS[-scale] : cursor.digits / TENS[scale];
            return cursor.isNegative ? -found : found;
        }
    }

    private static final class Floats extends Reader {
        @Override
        Float read(Cursor cursor) {
            cursor.number();
            if (!cursor.isInteger) {
                return Float.parseFloat(cursor.written());
            }
            if (cursor.count > 18 || cursor.isNegative && cursor.digits == 0) {
                throw Unusual.RECORD;
            }
            return (float) (cursor.isNegative ? -cursor.digits : cursor.digits);
        }

        @Override
        void readInto(Cursor cursor, InternalRow row, int column) {
            row.setFloat(column, read(cursor));
        }
    }

    private static final class Booleans extends Reader {
        @Override
        Boolean read(Cursor cursor) {
            boolean isTrue = cursor.bytes[cursor.at] == 't';
            cursor.literal(isTrue ? "true" : "false");
            return isTrue;
        }

        @Override
        void readInto(Cursor cursor, InternalRow row, int column) {
            row.setBoolean(column, read(cursor));
        }
    }

    private static final class Decimals extends Reader {
        private final int precision;
        private final int places;

        Decimals(int precision, int places) {
            this.precision = precision;
            this.places = places;
        }

        @Override
        Decimal read(Cursor cursor) {
            cursor.number();
            if (cursor.scale < 0) {
                throw Unusual.RECORD;
            }
            BigDecimal found = cursor.count > 18
                    ? new BigDecimal(cursor.written())
                    : BigDecimal.valueOf(cursor.isNegative ? -cursor.digits : cursor.digits, cursor.scale);
            BigDecimal rounded = found.setScale(places, RoundingMode.HALF_UP);
            if (rounded.precision() > precision) {
                throw Unusual.RECORD;
            }
            return Decimal.apply(rounded, precision, places);
        }
    }

    private static final class Dates extends Reader {
        @Override
        Integer read(Cursor cursor) {
            return find(cursor);
        }

        @Override
        void readInto(Cursor cursor, InternalRow row, int column) {
            row.setInt(column, find(cursor));
        }

        private static int find(Cursor cursor) {
            int from = startOfText(cursor);
            int to = cursor.plain();
            long found = Times.isDate(to - from) ? Times.parseDate(cursor.bytes, from) : Times.NONE;
            if (found == Times.NONE) {
                throw Unusual.RECORD;
            }
            return (int) found;
        }
    }

    private static final class Timestamps extends Reader {
        private static final long MOST_SECONDS = 9_000_000_000_000L;
        private final ZoneId zone;
        private final long fixedOffset;

        Timestamps(ZoneId zone) {
            this.zone = zone;
            fixedOffset = Times.fixedOffset(zone);
        }

        @Override
        Long read(Cursor cursor) {
            return find(cursor);
        }

        @Override
        void readInto(Cursor cursor, InternalRow row, int column) {
            row.setLong(column, find(cursor));
        }

        private long find(Cursor cursor) {
            if (cursor.bytes[cursor.at] != '"') {
                return seconds(cursor);
            }
            int from = cursor.at + 1;
            long found = Times.parse(cursor.bytes, from, cursor.plain(), zone, fixedOffset);
            if (found == Times.NONE) {
                throw Unusual.RECORD;
            }
            return found;
        }

        static long seconds(Cursor cursor) {
            long found = cursor.whole();
            if (Math.abs(found) > MOST_SECONDS) {
                throw Unusual.RECORD;
            }
            return found * Times.MICROS;
        }
    }

    /** Timestamps in a declared format, which Spark's own formatter reads. */
    private static final class Formatted extends Reader {
        private final TimestampFormatter formatter;

        Formatted(JSONOptions options) {
            formatter = TimestampFormatter.apply(
                    options.timestampFormatInRead(),
                    options.zoneId(),
                    options.locale(),
                    LegacyDateFormats.FAST_DATE_FORMAT(),
                    true);
        }

        @Override
        Long read(Cursor cursor) {
            if (cursor.bytes[cursor.at] != '"') {
                return Timestamps.seconds(cursor);
            }
            int from = cursor.at + 1;
            int to = cursor.plain();
            try {
                return formatter.parse(UTF8String.fromBytes(cursor.bytes, from, to - from).toString());
            } catch (Exception invalid) {
                throw Unusual.RECORD;
            }
        }
    }

    private static final class Binaries extends Reader {
        @Override
        byte[] read(Cursor cursor) {
            int from = startOfText(cursor);
            return decode(cursor.bytes, from, cursor.plain());
        }
    }

    /** Return what a text between two places is in Base64. */
    static byte[] decode(byte[] bytes, int from, int to) {
        if ((to - from) % 4 != 0) {
            throw Unusual.RECORD;
        }
        try {
            return Base64.getDecoder().decode(Arrays.copyOfRange(bytes, from, to));
        } catch (IllegalArgumentException other) {
            throw Unusual.RECORD;
        }
    }

    private static final class Elements extends Reader {
        private final Reader element;

        Elements(Reader element) {
            this.element = element;
        }

        @Override
        GenericArrayData read(Cursor cursor) {
            if (cursor.bytes[cursor.at] != '[') {
                throw Unusual.RECORD;
            }
            List<Object> found = new ArrayList<>();
            if (cursor.hasFirst(']')) {
                do {
                    cursor.token();
                    found.add(cursor.isNull() ? null : element.read(cursor));
                } while (cursor.hasNext(']'));
            }
            return new GenericArrayData(found.toArray());
        }
    }

    /** Maps whose keys are texts. A key that occurs twice is unusual. */
    private static final class Entries extends Reader {
        private final Reader value;

        Entries(Reader value) {
            this.value = value;
        }

        @Override
        ArrayBasedMapData read(Cursor cursor) {
            if (cursor.bytes[cursor.at] != '{') {
                throw Unusual.RECORD;
            }
            java.util.Map<Object, Object> found = new java.util.LinkedHashMap<>();
            int entries = 0;
            if (cursor.hasFirst('}')) {
                do {
                    Object key = key(cursor);
                    cursor.expect(':');
                    cursor.token();
                    found.put(key, cursor.isNull() ? null : value.read(cursor));
                    entries++;
                } while (cursor.hasNext('}'));
            }
            if (found.size() != entries) {
                throw Unusual.RECORD;
            }
            return new ArrayBasedMapData(
                    new GenericArrayData(found.keySet().toArray()), new GenericArrayData(found.values().toArray()));
        }

        private static UTF8String key(Cursor cursor) {
            if (cursor.token() != '"') {
                throw Unusual.RECORD;
            }
            UTF8String key = cursor.text();
            if (key.numBytes() > Cursor.MAX_NAME) {
                throw Unusual.RECORD;
            }
            return key;
        }
    }

    private static int startOfText(Cursor cursor) {
        if (cursor.bytes[cursor.at] != '"') {
            throw Unusual.RECORD;
        }
        return cursor.at + 1;
    }
}
