package kappa.start;

import java.util.Objects;
import org.apache.spark.sql.catalyst.ScalaReflection$;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructType;

/** Loads slow parts of Spark in a thread before the first batch needs them, while the driver loads its modules and its session opens (ADR 98). */
public final class FirstUse {
    private static final StructType ROW = new StructType().add("number", "bigint").add("text", "string").add("moment", "timestamp");

    private FirstUse() {}

    /** Load them in a thread. A failure has no effect: the batch has the same one, and reports it. */
    static void begin() {
        Thread thread = new Thread(FirstUse::load, "first-use");
        thread.setDaemon(true);
        thread.setUncaughtExceptionHandler((failed, error) -> {});
        thread.start();
    }

    /** Load them in this thread. */
    public static void load() {
        UnsafeProjection.create(ROW); // loads Janino, which compiles a class
        Objects.requireNonNull(ScalaReflection$.MODULE$); // makes the symbols of Scala's own types
    }
}
