package kappa.state;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.types.StructType;

/** The search for matches of a pattern, as `Search` in Python does it: the same order of events, the same paths, and the same matches. */
final class Search implements Step {
    private static final long serialVersionUID = 1L;

    /** Where the search continues after a match. */
    enum Skip {
        PAST_LAST_ROW,
        NEXT_ROW,
        FIRST,
        LAST
    }

    final Position[] positions;
    /** The conditions that refer to earlier events, by the number of their step. */
    final Condition[] conditions;
    final StructType operands;
    final int keyColumns, neededColumns;
    private final long within;
    private final Skip skip;
    private final int skipStep;
    private transient List<Navigation> remembered;

    /** `within` is in microseconds, NEVER for a pattern without a limit; `event` has the columns of `Event`. */
    Search(Position[] positions, Condition[] conditions, long within, Skip skip, int skipStep, int keyColumns, StructType event) {
        this.positions = positions;
        this.conditions = conditions;
        this.within = within;
        this.skip = skip;
        this.skipStep = skipStep;
        this.keyColumns = keyColumns;
        this.operands = (StructType) event.fields()[Event.OPERANDS].dataType();
        this.neededColumns = ((StructType) event.fields()[Event.NEEDED].dataType()).length();
    }

    @Override
    public void open() {
        Set<Navigation> found = new LinkedHashSet<>();
        for (Condition each : conditions) {
            if (each != null) {
                each.open();
                found.addAll(each.inputs());
            }
        }
        remembered = List.copyOf(found);
    }

    /** Return the values of earlier events on which conditions depend. */
    List<Navigation> remembered() {
        return remembered;
    }

    @Override
    public void advance(Kept kept, long watermark, Output output) {
        List<Path> paths = Path.FIRST;
        List<Event> held = new ArrayList<>(), waiting = new ArrayList<>();
        for (Entry each : kept.entries) {
            if (each.kind() == Entry.PATHS) {
                paths = Path.unpack(each);
            } else {
                (each.kind() == Entry.DONE ? held : waiting).add(new Event(each));
            }
        }
        waiting.sort(null);
        Attempt attempt = new Attempt(this, kept.key, held, paths, output);
        int taken = attempt.advance(waiting, watermark);
        kept.entries.clear();
        if (!held.isEmpty()) {
            kept.entries.add(Path.pack(attempt.paths()));
        }
        held.forEach(each -> kept.entries.add(each.entry(Entry.DONE)));
        waiting.subList(taken, waiting.size()).forEach(each -> kept.entries.add(each.entry(Entry.PENDING)));
    }

    @Override
    public long findWake(Kept kept) {
        long next = NEVER;
        boolean hasStarted = false;
        for (Entry each : kept.entries) {
            if (each.kind() == Entry.PENDING) {
                next = Math.min(next, each.time());
            } else if (each.kind() == Entry.DONE && !hasStarted) {
                hasStarted = true;
                next = Math.min(next, findLimit(each.time()));
            }
        }
        return next;
    }

    /** Return the last time of a match whose first event has this time. */
    long findLimit(long start) {
        return start > NEVER - within ? NEVER : start + within;
    }

    /** Return where the search continues after a match, counted from its start, at least 1. */
    int findNext(byte[] steps) {
        if (skip == Skip.PAST_LAST_ROW) {
            return steps.length;
        }
        int found = -1;
        for (int at = 0; at < steps.length && skip != Skip.NEXT_ROW; at++) {
            if (steps[at] == skipStep && (found < 0 || skip == Skip.LAST)) {
                found = at;
            }
        }
        return Math.max(1, found);
    }
}
