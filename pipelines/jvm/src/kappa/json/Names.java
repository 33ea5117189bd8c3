package kappa.json;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** The names of the fields that are read of an object. */
final class Names {
    private final byte[][] names;

    Names(List<String> wanted) {
        names = wanted.stream().map(name -> (name + '"').getBytes(StandardCharsets.UTF_8)).toArray(byte[][]::new);
    }

    /** Move behind a name and return its field; -1 if there is none. Most records have the fields in the order of the schema, so `next` is tried first. */
    int find(Cursor cursor, int next) {
        if (cursor.token() != '"') {
            throw Unusual.RECORD;
        }
        int wanted = next < names.length ? next : 0;
        if (wanted < names.length && cursor.isName(names[wanted])) {
            return wanted;
        }
        int from = cursor.at + 1;
        int length = cursor.plain() - from + 1;
        if (length > Cursor.MAX_NAME) {
            throw Unusual.RECORD;
        }
        for (int field = 0; field < names.length; field++) {
            byte[] name = names[field];
            if (name.length == length && Arrays.equals(cursor.bytes, from, from + length, name, 0, length)) {
                return field;
            }
        }
        return -1;
    }
}
