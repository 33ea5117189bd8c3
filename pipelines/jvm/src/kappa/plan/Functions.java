package kappa.plan;

import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import scala.Option;

/** Spark's own functions. */
public final class Functions {
    private Functions() {}

    /** Return the class of each function of a list of names with blanks between, in their order; `-` for one that Spark does not have. */
    public static String findClasses(String names) {
        StringBuilder found = new StringBuilder();
        for (String name : names.split(" ")) {
            Option<ExpressionInfo> info = FunctionRegistry.builtin().lookupFunction(new FunctionIdentifier(name));
            found.append(found.isEmpty() ? "" : " ").append(info.isEmpty() ? "-" : info.get().getClassName());
        }
        return found.toString();
    }
}
