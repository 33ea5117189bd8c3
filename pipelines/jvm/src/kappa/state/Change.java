package kappa.state;

import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A change of a row of a table, or the row: where it comes from, the key that it refers to, and its columns as JSON. Without columns it is a
 * deletion. The rules are those of `versions` in Python.
 */
record Change(Place place, Version version, UTF8String to, UTF8String body) {
    /** A whole number, or a position in the log of a server; null where a record has none. */
    record Place(long server, long position) {}

    /** What else describes a change of a database; null for one with a number. */
    record Version(boolean isSnapshot, long offset, List<String> unavailable) {}

    private static final Comparator<Change> BY_NUMBER =
            Comparator.comparingLong((Change each) -> each.place.position).thenComparing(each -> each.body == null ? UTF8String.EMPTY_UTF8 : each.body);

    static Change ofNumber(long order, UTF8String to, UTF8String body) {
        return new Change(new Place(0, order), null, to, body);
    }

    /** `order` is a version of change events in JSON, without what is NULL; null for one that is NULL. */
    static Change ofVersion(UTF8String order, UTF8String to, UTF8String body) {
        Map<String, String> parts = order == null ? Map.of() : Members.read(toText(order));
        String position = parts.get("\"position\"");
        Place place = position == null ? null : new Place(readLong(parts, "\"server\""), Long.parseLong(position));
        List<String> unavailable = Members.list(parts.getOrDefault("\"unavailable\"", "[]"));
        boolean isSnapshot = "true".equals(parts.get("\"snapshot\""));
        return new Change(place, new Version(isSnapshot, readLong(parts, "\"offset\""), unavailable), to, body);
    }

    private static long readLong(Map<String, String> parts, String name) {
        return Long.parseLong(parts.getOrDefault(name, "0"));
    }

    /** Return the last change that is newer than the row, in any order of arrival; null if there is none. */
    static Change findNewest(Change row, List<Change> changes) {
        if (changes.isEmpty() || changes.get(0).version == null) {
            Change last = changes.stream().max(BY_NUMBER).orElse(null);
            return last == null || row != null && row.place.position >= last.place.position ? null : last;
        }
        List<Change> ordered = new ArrayList<>(changes);
        ordered.sort(Comparator.comparingLong(each -> each.version.offset));
        Change current = row;
        for (Change each : ordered) {
            if (current == null || !each.isStale(current.place)) {
                current = each.fill(current);
            }
        }
        return current == row ? null : current;
    }

    /** Return whether it is from an earlier position of the same server's log. */
    private boolean isStale(Place stored) {
        boolean isComparable = !version.isSnapshot && place != null && stored != null && stored.server == place.server;
        return isComparable && stored.position > place.position;
    }

    /** Return the change with the values that some columns had in the former row. */
    private Change fill(Change former) {
        if (body == null || former == null || former.body == null || version.unavailable.isEmpty()) {
            return this;
        }
        Map<String, String> members = Members.read(toText(body)), before = Members.read(toText(former.body));
        for (String name : version.unavailable) {
            if (before.containsKey(name)) {
                members.replace(name, before.get(name));
            }
        }
        return new Change(place, version, to, UTF8String.fromBytes(Members.write(members).getBytes(ISO_8859_1)));
    }

    private static String toText(UTF8String text) {
        return new String(text.getBytes(), ISO_8859_1);
    }

    /** Return the row as it is stored: its place, the key that it refers to, and its columns. */
    byte[] pack() {
        byte[] key = to == null ? new byte[0] : to.getBytes(), columns = body.getBytes();
        ByteBuffer buffer = ByteBuffer.allocate(1 + (place == null ? 0 : 2 * Long.BYTES) + Integer.BYTES + key.length + columns.length);
        buffer.put((byte) (place == null ? 0 : 1));
        if (place != null) {
            buffer.putLong(place.server).putLong(place.position);
        }
        return buffer.putInt(key.length).put(key).put(columns).array();
    }

    /** Return a stored row; null for null. */
    static Change unpack(byte[] stored) {
        if (stored == null) {
            return null;
        }
        ByteBuffer buffer = ByteBuffer.wrap(stored);
        Place place = buffer.get() == 0 ? null : new Place(buffer.getLong(), buffer.getLong());
        UTF8String to = readText(stored, buffer, buffer.getInt());
        return new Change(place, null, to, readText(stored, buffer, buffer.remaining()));
    }

    private static UTF8String readText(byte[] stored, ByteBuffer buffer, int length) {
        UTF8String text = UTF8String.fromBytes(stored, buffer.position(), length);
        buffer.position(buffer.position() + length);
        return text;
    }

    /** Return a text of a row of Spark, which reuses its memory. */
    static UTF8String copyText(InternalRow row, int column) {
        return row.isNullAt(column) ? null : row.getUTF8String(column).clone();
    }
}
