package kappa.state;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A way through a pattern: the position of its last event, or `DONE`, and the step numbers of all its events. */
record Path(int position, byte[] steps) {
    static final List<Path> FIRST = List.of(new Path(Position.START, new byte[0]));

    private static final int WORD = Long.BYTES;

    static byte[] add(byte[] steps, byte step) {
        byte[] longer = Arrays.copyOf(steps, steps.length + 1);
        longer[steps.length] = step;
        return longer;
    }

    /** Return the steps up to the last event that is not skipped. */
    byte[] strip() {
        int end = steps.length;
        while (end > 0 && steps[end - 1] == Position.PASSED) {
            end--;
        }
        return Arrays.copyOf(steps, end);
    }

    /** Return paths as an entry of a key's state: how many, then for each its position, its length, and its steps; filled up to whole words. */
    static Entry pack(List<Path> paths) {
        int size = Integer.BYTES;
        for (Path each : paths) {
            size += 2 * Integer.BYTES + each.steps.length;
        }
        ByteBuffer buffer = ByteBuffer.allocate((size + WORD - 1) / WORD * WORD).putInt(paths.size());
        for (Path each : paths) {
            buffer.putInt(each.position).putInt(each.steps.length).put(each.steps);
        }
        return new Entry(Long.MIN_VALUE, Entry.PATHS, buffer.array(), 0, buffer.capacity());
    }

    static List<Path> unpack(Entry packed) {
        ByteBuffer buffer = ByteBuffer.wrap(packed.buffer(), packed.offset(), packed.length());
        List<Path> paths = new ArrayList<>();
        for (int left = buffer.getInt(); left > 0; left--) {
            int position = buffer.getInt();
            byte[] steps = new byte[buffer.getInt()];
            buffer.get(steps);
            paths.add(new Path(position, steps));
        }
        return paths;
    }
}
