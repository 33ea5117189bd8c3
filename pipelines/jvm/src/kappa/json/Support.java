package kappa.json;

import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map;
import scala.jdk.javaapi.CollectionConverters;

/** Which schemas and options this module reads and writes; the others stay with Spark. */
public final class Support {
    /** Spark's limit for a text, where no option sets another one. */
    static final int LONGEST = 20_000_000;

    private static final String FREE_FORMAT = "timestampntzformat";  // of a type that is not supported
    private static final Set<String> READ =
            Set.of("mode", "columnnameofcorruptrecord", "maxstringlen", "timestampformat", "ignorenullfields", FREE_FORMAT);
    private static final Set<String> WRITTEN = Set.of("ignorenullfields", "timestampformat", FREE_FORMAT);
    private static final Set<DataType> PLAIN = Set.of(
            DataTypes.StringType, DataTypes.BinaryType, DataTypes.BooleanType, DataTypes.ByteType, DataTypes.ShortType,
            DataTypes.IntegerType, DataTypes.LongType, DataTypes.FloatType, DataTypes.DoubleType, DataTypes.DateType,
            DataTypes.TimestampType);

    private Support() {}

    /** Return why values with a schema and options are read by Spark; null if they are read by this module. */
    public static String explainRead(DataType schema, Map<String, String> options, String corrupt) {
        if (!(schema instanceof StructType struct)) {
            return "the type is not a struct";
        }
        String wrong = explainOptions(options, READ);
        if (wrong != null) {
            return wrong;
        }
        String name = find(options, "columnNameOfCorruptRecord", corrupt);
        boolean isText = true;
        int declared = 0;
        for (StructField field : struct.fields()) {
            boolean isCorrupt = field.name().equals(name);
            isText &= !isCorrupt || field.dataType().equals(DataTypes.StringType);
            declared += isCorrupt ? 0 : 1;
        }
        if (!isText || declared == 0) {
            return isText ? "no column is declared" : "column " + name + " is not a STRING";
        }
        return explainType(struct, "");
    }

    /** Return why values of a type are written by Spark; null if they are written by this module. */
    public static String explainWrite(DataType type, Map<String, String> options) {
        String wrong = explainOptions(options, WRITTEN);
        return wrong == null ? explainType(type, "") : wrong;
    }

    /** Return why change events with columns of these types are read by Spark; null if they are read by this module. */
    public static String explainChanges(StructType row) {
        for (StructField field : row.fields()) {
            DataType type = field.dataType();
            if (!isDocument(type) && !(type instanceof DecimalType) && !PLAIN.contains(type) && !type.equals(DataTypes.TimestampNTZType)) {
                return explain(type, field.name());
            }
        }
        return null;
    }

    static boolean isDocument(DataType type) {
        return type instanceof StructType || type instanceof ArrayType || type instanceof MapType;
    }

    private static String explainOptions(Map<String, String> options, Set<String> known) {
        Set<String> found = new HashSet<>();
        for (String name : CollectionConverters.asJava(options).keySet()) {
            String lowered = name.toLowerCase(Locale.ROOT);
            if (!known.contains(lowered) || !found.add(lowered)) {
                return "option " + name;
            }
        }
        return null;
    }

    private static String explainType(DataType type, String path) {
        if (type instanceof StructType struct) {
            return explainFields(struct, path);
        }
        if (type instanceof ArrayType array) {
            return explainType(array.elementType(), path);
        }
        if (type instanceof MapType map) {
            return map.keyType().equals(DataTypes.StringType) ? explainType(map.valueType(), path) : explain(type, path);
        }
        return type instanceof DecimalType || PLAIN.contains(type) ? null : explain(type, path);
    }

    private static String explain(DataType type, String path) {
        return (path.isEmpty() ? "" : "column " + path + " is ") + type.sql();
    }

    private static String explainFields(StructType struct, String path) {
        Set<String> names = new HashSet<>();
        for (StructField field : struct.fields()) {
            String name = path.isEmpty() ? field.name() : path + "." + field.name();
            if (!names.add(field.name())) {
                return "two columns have the name " + name;
            }
            if (field.hasExistenceDefaultValue() || field.getCurrentDefaultValue().isDefined()) {
                return "column " + name + " has a default";
            }
            String wrong = explainType(field.dataType(), name);
            if (wrong != null) {
                return wrong;
            }
        }
        return null;
    }

    /** Return the size of the largest record whose texts are certainly within the limit. */
    static int longest(Map<String, String> options) {
        try {
            return Integer.parseInt(find(options, "maxStringLen", String.valueOf(LONGEST)));
        } catch (NumberFormatException invalid) {
            return 0;
        }
    }

    private static String find(Map<String, String> options, String name, String otherwise) {
        for (java.util.Map.Entry<String, String> option : CollectionConverters.asJava(options).entrySet()) {
            if (option.getKey().equalsIgnoreCase(name)) {
                return option.getValue();
            }
        }
        return otherwise;
    }
}
