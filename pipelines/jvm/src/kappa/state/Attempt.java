package kappa.state;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.Platform;

/** The search of one key: the events from the start of the present attempt, and its remaining paths in the order of preference. */
final class Attempt {
    private final Search search;
    private final byte[] key;
    private final List<Event> held;
    private final Output output;
    private List<Path> paths;
    private int seen;

    /** `held` are the events of the attempt, which it changes. */
    Attempt(Search search, byte[] key, List<Event> held, List<Path> paths, Output output) {
        this.search = search;
        this.key = key;
        this.held = held;
        this.paths = paths;
        this.output = output;
        this.seen = held.size();
    }

    List<Path> paths() {
        return paths;
    }

    /** Process the events that are due, in their order; return how many. */
    int advance(List<Event> waiting, long watermark) {
        int taken = 0;
        while (taken < waiting.size() && waiting.get(taken).time() <= watermark) {
            Event event = waiting.get(taken++);
            endBefore(event.time());
            held.add(event);
            follow(event.time());
        }
        endBefore(watermark + 1);
        return taken;
    }

    /** End the attempts that no event from this time on can extend. */
    private void endBefore(long time) {
        while (!held.isEmpty() && search.findLimit(held.get(0).time()) < time) {
            long limit = search.findLimit(held.get(0).time());
            restart(findEnd(), limit);
            follow(limit);
        }
    }

    /** Return the steps of the preferred path that is a match without further events; empty if there is none. */
    private byte[] findEnd() {
        for (Path each : paths) {
            boolean isDone = each.position() == Position.DONE;
            if (isDone || positionOf(each).leadsTo(Position.DONE) || positionOf(each).leadsTo(Position.AT_END)) {
                return each.strip();
            }
        }
        return new byte[0];
    }

    private Position positionOf(Path path) {
        return search.positions[path.position()];
    }

    /** Process the events that the attempt has not seen; end it when no event can change its result. */
    private void follow(long clock) {
        while (seen < held.size()) {
            List<Path> left = step(seen++);
            if (!left.isEmpty() && left.get(0).position() != Position.DONE) {
                paths = left.size() == 1 ? left : merge(left);
            } else {
                restart(left.isEmpty() ? new byte[0] : left.get(0).steps(), clock);
            }
        }
    }

    /** Write the match, if there is one, and start the next attempt. */
    private void restart(byte[] steps, long clock) {
        int move = 1;
        if (steps.length > 0) {
            output.add(buildRow(steps, clock));
            move = search.findNext(steps);
        }
        held.subList(0, move).clear();
        paths = Path.FIRST;
        seen = 0;
    }

    private InternalRow buildRow(byte[] steps, long clock) {
        List<InternalRow> rows = new ArrayList<>();
        for (int at = 0; at < steps.length; at++) {
            if (steps[at] != Position.PASSED) {
                rows.add(row((int) steps[at], held.get(at).read(Event.NEEDED, search.neededColumns)));
            }
        }
        UnsafeRow keys = new UnsafeRow(search.keyColumns);
        keys.pointTo(key, Platform.BYTE_ARRAY_OFFSET, key.length);
        return row(keys, new GenericArrayData(rows.toArray()), held.get(0).time(), held.get(steps.length - 1).time(), clock);
    }

    private static InternalRow row(Object... values) {
        return new GenericInternalRow(values);
    }

    /** Return the paths that remain with the event at this index. */
    private List<Path> step(int index) {
        List<Path> left = new ArrayList<>();
        for (Path each : paths) {
            if (each.position() == Position.DONE) {
                left.add(each);
                continue;
            }
            for (int number : positionOf(each).follow()) {
                if (number == Position.DONE) {
                    left.add(new Path(Position.DONE, each.steps()));
                } else if (number != Position.AT_END) {
                    extend(each, number, held.get(index), left);
                }
            }
        }
        return left;
    }

    /** Add the path with an event at a position, if it fits there. */
    private void extend(Path path, int number, Event event, List<Path> left) {
        Position at = search.positions[number];
        byte[] taken = Path.add(path.steps(), (byte) at.step());
        Condition condition = search.conditions[at.step()];
        boolean holds = event.satisfies(at.step()) && (condition == null || condition.holds(taken, held));
        if (holds != at.absent()) {
            boolean isDone = at.follow()[0] == Position.DONE;
            left.add(new Path(isDone ? Position.DONE : number, at.absent() ? Path.add(path.steps(), Position.PASSED) : taken));
        }
    }

    /** Drop each path with the same future as a preferred one, and those after a match. */
    private List<Path> merge(List<Path> all) {
        List<Path> left = new ArrayList<>();
        Set<List<Object>> known = new HashSet<>();
        for (Path each : all) {
            List<Object> future = new ArrayList<>();
            future.add(each.position());
            search.remembered().forEach(past -> future.add(past.remember(each.steps(), held, search.operands)));
            if (known.add(future)) {
                left.add(each);
            }
            if (each.position() == Position.DONE || positionOf(each).leadsTo(Position.DONE)) {
                break;
            }
        }
        return left;
    }
}
