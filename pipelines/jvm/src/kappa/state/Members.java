package kappa.state;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The members of JSON that Spark wrote, so without spaces, as they are written: numbers stay exact, and names keep their quotes.
 *
 * <p>A text here has one character for each byte.
 */
final class Members {
    private Members() {}

    /** Return the members of an object by their names. */
    static Map<String, String> read(String object) {
        Map<String, String> members = new LinkedHashMap<>();
        for (int at = 1, end; at < object.length() && object.charAt(at) == '"'; at = end + 1) {
            int colon = findEndOfText(object, at);
            end = findEnd(object, colon + 1);
            members.put(object.substring(at, colon), object.substring(colon + 1, end));
        }
        return members;
    }

    /** Return the elements of an array. */
    static List<String> list(String array) {
        List<String> elements = new ArrayList<>();
        for (int at = 1, end; at < array.length() - 1; at = end + 1) {
            end = findEnd(array, at);
            elements.add(array.substring(at, end));
        }
        return elements;
    }

    static String write(Map<String, String> members) {
        StringBuilder made = new StringBuilder("{");
        for (Map.Entry<String, String> each : members.entrySet()) {
            made.append(made.length() == 1 ? "" : ",").append(each.getKey()).append(':').append(each.getValue());
        }
        return made.append('}').toString();
    }

    private static int findEndOfText(String text, int quote) {
        int at = quote + 1;
        while (text.charAt(at) != '"') {
            at += text.charAt(at) == '\\' ? 2 : 1;
        }
        return at + 1;
    }

    /** Return where the value at a position ends: at the comma or bracket behind it. */
    private static int findEnd(String text, int from) {
        int depth = 0;
        int at = from;
        while (true) {
            char each = text.charAt(at);
            if (each == '"') {
                at = findEndOfText(text, at);
                continue;
            }
            boolean isClosing = each == '}' || each == ']';
            if (depth == 0 && (isClosing || each == ',')) {
                return at;
            }
            depth += each == '{' || each == '[' ? 1 : isClosing ? -1 : 0;
            at++;
        }
    }
}
