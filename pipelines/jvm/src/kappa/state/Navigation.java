package kappa.state;

import java.io.Serializable;
import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.TypeUtils;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.FractionalType;
import org.apache.spark.sql.types.StructType;
import scala.math.Ordering;

/**
 * A value of the events of a match: `function` of an operand over the events of a step.
 *
 * <p>`prev` is that many events before the tested one, of any step; with offset 0 it is the tested one. The offset of `last` counts backwards,
 * that of `first` forwards. Without an operand it counts rows. NULL is null, as is a sum that its type cannot hold.
 */
record Navigation(String function, int step, int operand, int offset) implements Serializable {
    private static final int ANY_STEP = -1, ROWS = -1;
    private static final MathContext DIGITS = new MathContext(28, RoundingMode.HALF_EVEN);

    /** Return the value, given the step numbers of the events, the tested one last. */
    Object find(byte[] path, List<Event> events, StructType operands) {
        return switch (function) {
            case "first", "last", "prev" -> findAt(path, events, operands, offset);
            default -> aggregate(path, events, operands);
        };
    }

    /** Return the part of the past on which present and later values depend. */
    Object remember(byte[] path, List<Event> events, StructType operands) {
        switch (function) {
            case "prev":
                return null; // the same for all paths through the pattern
            case "first", "last":
                List<Object> values = new ArrayList<>();
                for (int at = 0; at <= offset; at++) {
                    values.add(findAt(path, events, operands, at));
                }
                return values;
            case "avg":
                List<Object> found = collect(path, events, operands);
                return Arrays.asList(sum(found, typeOf(operands)), found.size());
            default:
                return find(path, events, operands);
        }
    }

    private Object findAt(byte[] path, List<Event> events, StructType operands, int at) {
        int place = findPlace(path, at);
        return place < 0 ? null : read(events.get(place), operands);
    }

    /** Return the position of an event, negative if there is none. */
    private int findPlace(byte[] path, int at) {
        if (function.equals("prev")) {
            return path.length - 1 - at;
        }
        boolean isFirst = function.equals("first");
        int left = at;
        for (int count = 0; count < path.length; count++) {
            int place = isFirst ? count : path.length - 1 - count;
            if (isIncluded(path[place]) && left-- == 0) {
                return place;
            }
        }
        return -1;
    }

    private boolean isIncluded(byte found) {
        return step == ANY_STEP ? found != Position.PASSED : found == step;
    }

    private Object read(Event event, StructType operands) {
        UnsafeRow row = event.read(Event.OPERANDS, operands.length());
        return row.isNullAt(operand) ? null : row.get(operand, typeOf(operands));
    }

    private DataType typeOf(StructType operands) {
        return operands.fields()[operand].dataType();
    }

    private Object aggregate(byte[] path, List<Event> events, StructType operands) {
        if (operand == ROWS) {
            long rows = 0;
            for (byte each : path) {
                rows += isIncluded(each) ? 1 : 0;
            }
            return rows;
        }
        List<Object> values = collect(path, events, operands);
        DataType type = typeOf(operands);
        return switch (function) {
            case "count" -> (long) values.size();
            case "sum" -> sum(values, type);
            case "avg" -> average(values, type);
            case "min", "max" -> findEnd(values, TypeUtils.getInterpretedOrdering(type));
            default -> throw new IllegalArgumentException("no function " + function);
        };
    }

    private List<Object> collect(byte[] path, List<Event> events, StructType operands) {
        List<Object> values = new ArrayList<>();
        for (int place = 0; place < path.length; place++) {
            Object value = isIncluded(path[place]) ? read(events.get(place), operands) : null;
            if (value != null) {
                values.add(value);
            }
        }
        return values;
    }

    private Object findEnd(List<Object> values, Ordering<Object> ordering) {
        int sign = function.equals("max") ? 1 : -1;
        Object found = null;
        for (Object each : values) {
            found = found == null || ordering.compare(each, found) * sign > 0 ? each : found;
        }
        return found;
    }

    private static Object sum(List<Object> values, DataType type) {
        if (values.isEmpty()) {
            return null;
        }
        if (type instanceof DecimalType decimal) {
            BigDecimal total = add(values);
            boolean fits = total.precision() - total.scale() <= DecimalType.MAX_PRECISION() - decimal.scale();
            return fits ? Decimal.apply(total, DecimalType.MAX_PRECISION(), decimal.scale()) : null;
        }
        if (type instanceof FractionalType) {
            return addDoubles(values);
        }
        long total = 0;
        for (Object each : values) {
            long next = total + ((Number) each).longValue();
            if (((total ^ next) & (((Number) each).longValue() ^ next)) < 0) {
                return null;
            }
            total = next;
        }
        return total;
    }

    private static Double average(List<Object> values, DataType type) {
        if (values.isEmpty()) {
            return null;
        }
        boolean isDouble = type instanceof FractionalType && !(type instanceof DecimalType);
        return isDouble ? addDoubles(values) / values.size() : add(values).divide(BigDecimal.valueOf(values.size()), DIGITS).doubleValue();
    }

    private static BigDecimal add(List<Object> values) {
        BigDecimal total = BigDecimal.ZERO;
        for (Object each : values) {
            total = total.add(each instanceof Decimal decimal ? decimal.toJavaBigDecimal() : BigDecimal.valueOf(((Number) each).longValue()));
        }
        return total;
    }

    private static double addDoubles(List<Object> values) {
        double total = 0;
        for (Object each : values) {
            total += ((Number) each).doubleValue();
        }
        return total;
    }
}
