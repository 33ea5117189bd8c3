package kappa.json;

import java.util.Base64;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.json.JSONOptions;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.DateFormatter;
import org.apache.spark.sql.catalyst.util.LegacyDateFormats;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.catalyst.util.TimestampFormatter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Makes writers of types. */
final class Writers {
    private static final byte[] NULL = "null".getBytes();
    private static final double MOST_PLAIN = 1e7;
    private final JSONOptions options;

    Writers(JSONOptions options) {
        this.options = options;
    }

    Writer build(DataType type) {
        if (type instanceof StructType struct) {
            Fields fields = new Fields(struct);
            int count = struct.length();
            return (from, at, output) -> fields.write(from.getStruct(at, count), output);
        }
        if (type instanceof ArrayType array) {
            Writer element = build(array.elementType());
            return (from, at, output) -> writeArray(from.getArray(at), element, output);
        }
        if (type instanceof MapType map) {
            Writer value = build(map.valueType());
            return (from, at, output) -> writeMap(from.getMap(at), value, output);
        }
        if (type instanceof DecimalType decimal) {
            int precision = decimal.precision();
            int scale = decimal.scale();
            return (from, at, output) ->
                    output.add(from.getDecimal(at, precision, scale).toJavaBigDecimal().toString());
        }
        if (type.equals(DataTypes.TimestampType)) {
            return buildTimestamp();
        }
        return type.equals(DataTypes.DateType) ? buildDate() : buildPlain(type);
    }

    private static Writer buildPlain(DataType type) {
        if (type.equals(DataTypes.StringType)) {
            return (from, at, output) -> output.text(from.getUTF8String(at));
        }
        if (type.equals(DataTypes.LongType)) {
            return (from, at, output) -> output.number(from.getLong(at));
        }
        if (type.equals(DataTypes.IntegerType)) {
            return (from, at, output) -> output.number(from.getInt(at));
        }
        if (type.equals(DataTypes.ShortType)) {
            return (from, at, output) -> output.number(from.getShort(at));
        }
        if (type.equals(DataTypes.ByteType)) {
            return (from, at, output) -> output.number(from.getByte(at));
        }
        if (type.equals(DataTypes.DoubleType)) {
            return (from, at, output) -> writeDouble(from.getDouble(at), output);
        }
        if (type.equals(DataTypes.FloatType)) {
            return (from, at, output) -> writeFloat(from.getFloat(at), output);
        }
        if (type.equals(DataTypes.BooleanType)) {
            return (from, at, output) -> output.add(from.getBoolean(at) ? "true" : "false");
        }
        return (from, at, output) -> {
            output.add('"');
            output.add(Base64.getEncoder().encode(from.getBinary(at)));
            output.add('"');
        };
    }

    private static void writeDouble(double value, Output output) {
        if (!Double.isFinite(value)) {
            output.quote(Double.toString(value));
        } else if (value == (long) value && Math.abs(value) < MOST_PLAIN && value != 0) {
            output.number((long) value);
            output.add(".0");
        } else {
            output.add(Double.toString(value));
        }
    }

    private static void writeFloat(float value, Output output) {
        if (Float.isFinite(value)) {
            output.add(Float.toString(value));
        } else {
            output.quote(Float.toString(value));
        }
    }

    private Writer buildDate() {
        DateFormatter formatter =
                DateFormatter.apply(options.dateFormatInWrite(), options.locale(), LegacyDateFormats.FAST_DATE_FORMAT(), false);
        return (from, at, output) -> {
            int days = from.getInt(at);
            if (Times.isPlain(days)) {
                output.add('"');
                Times.write(days, output);
                output.add('"');
            } else {
                write(formatter.format(days), output);
            }
        };
    }

    private Writer buildTimestamp() {
        String pattern = options.timestampFormatInWrite();
        TimestampFormatter formatter = TimestampFormatter.apply(
                pattern, options.zoneId(), options.locale(), LegacyDateFormats.FAST_DATE_FORMAT(), false);
        int places = Times.isUtc(options.zoneId()) ? Times.places(pattern) : 0;
        return (from, at, output) -> {
            long micros = from.getLong(at);
            long second = Math.floorDiv(micros, Times.MICROS);
            long days = Math.floorDiv(second, Times.SECONDS_PER_DAY);
            if (places > 0 && Times.isPlain(days)) {
                output.add('"');
                Times.write(days, output);
                output.time((int) (second - days * Times.SECONDS_PER_DAY), micros - second * Times.MICROS, places);
                output.add('"');
            } else {
                write(formatter.format(micros), output);
            }
        };
    }

    private static void write(String text, Output output) {
        output.text(UTF8String.fromString(text));
    }

    private static void writeOrNull(SpecializedGetters from, int at, Writer writer, Output output) {
        if (from.isNullAt(at)) {
            output.add(NULL);
        } else {
            writer.write(from, at, output);
        }
    }

    private static void writeArray(ArrayData array, Writer element, Output output) {
        output.add('[');
        for (int i = 0; i < array.numElements(); i++) {
            if (i > 0) {
                output.add(',');
            }
            writeOrNull(array, i, element, output);
        }
        output.add(']');
    }

    private static void writeMap(MapData map, Writer value, Output output) {
        ArrayData keys = map.keyArray();
        ArrayData values = map.valueArray();
        output.add('{');
        for (int i = 0; i < map.numElements(); i++) {
            if (i > 0) {
                output.add(',');
            }
            output.text(keys.getUTF8String(i));
            output.add(':');
            writeOrNull(values, i, value, output);
        }
        output.add('}');
    }

    /** The columns of a struct. */
    private final class Fields {
        private final byte[][] names;
        private final Writer[] writers;
        private final boolean skipsNulls = options.ignoreNullFields();

        Fields(StructType type) {
            StructField[] fields = type.fields();
            names = new byte[fields.length][];
            writers = new Writer[fields.length];
            Output output = new Output();
            for (int i = 0; i < fields.length; i++) {
                output.text(UTF8String.fromString(fields[i].name()));
                output.add(':');
                names[i] = output.copy();
                output.reset();
                writers[i] = build(fields[i].dataType());
            }
        }

        void write(InternalRow row, Output output) {
            char before = '{';
            for (int i = 0; i < writers.length; i++) {
                if (skipsNulls && row.isNullAt(i)) {
                    continue;
                }
                output.add(before);
                output.add(names[i]);
                writeOrNull(row, i, writers[i], output);
                before = ',';
            }
            if (before == '{') {
                output.add('{');
            }
            output.add('}');
        }
    }
}
