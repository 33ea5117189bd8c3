package kappa.kafka;

/**
 * How many records of each source a batch of a query takes, so that a batch takes a certain time (ADR 96).
 *
 * <p>The bound is the same for all sources of a query, and follows from the duration of each batch. `used` is the part of the bound that the
 * source with most records has filled. A batch that was too long lowers the bound at once, in proportion. A full one that was shorter raises it:
 * by at most a factor, and after the first batch that was too long only half of the way, by its logarithm.
 *
 * <p>Where most of a batch is not for its records, smaller batches are not shorter. So two batches of different sizes give the duration of one
 * without records, and the time of a batch is at least twice that.
 *
 * <p>Only the thread of the query uses it.
 */
public final class BatchBound {
    private static final double GROWTH = 8;
    private static final double DROP = 10;
    private static final double LEAST = 1_000;
    private static final double FULL = 0.9;
    /** Two batches of sizes that differ by this factor show what does not depend on it. */
    private static final double APART = 2;
    /** No batch is to take longer than this many times the target, whatever it costs. */
    private static final double LONGEST = 4;

    private final double target;
    private final double most;
    private double bound;
    private boolean isStarting = true;
    private double fixed;
    private double knownRows;
    private double knownTook;
    private double used;
    private long began;

    /** Times are in nanoseconds. */
    public BatchBound(double target, long first, long most) {
        this.target = target;
        this.most = most;
        bound = Math.min(first, most);
    }

    /** Returns how many records of each source the next batch takes. */
    public long records() {
        return (long) bound;
    }

    /** A source has found so many records for the next batch; it began to look for them at a time. */
    void plan(long rows, long now) {
        if (used == 0) { // Spark plans until there are records
            began = now;
        }
        used = Math.max(used, Math.min(1, rows / (double) records()));
    }

    /** Spark has ended a batch, if there was one. Of all sources of the query, the first one counts. */
    void end(long now) {
        if (used > 0) {
            adapt(used, Math.max(1, now - began));
        }
        used = 0;
    }

    /** Learns from a batch that has used a part of the bound, and has taken a time. */
    public void adapt(double part, double took) {
        learnFixed(bound * part, took);
        double goal = Math.min(Math.max(target, 2 * fixed), LONGEST * target);
        double wanted = bound * part * goal / took;
        if (took > goal) {
            isStarting = false;
            bound = Math.min(bound, Math.max(wanted, Math.max(bound / DROP, Math.min(LEAST, most))));
        } else if (part >= FULL && wanted > bound) {
            double next = isStarting ? wanted : Math.sqrt(bound * wanted);
            bound = Math.min(most, Math.min(next, bound * GROWTH));
        }
    }

    private void learnFixed(double rows, double took) {
        double less = Math.min(rows, knownRows);
        double more = Math.max(rows, knownRows);
        boolean isApart = knownRows > 0 && more >= APART * less;
        if (isApart) {
            double ofLess = rows < knownRows ? took : knownTook;
            double ofMore = rows < knownRows ? knownTook : took;
            fixed = Math.max(0, Math.min(ofLess, (ofLess * more - ofMore * less) / (more - less)));
        }
        fixed = Math.min(fixed, took);
        if (isApart || rows >= knownRows) {
            knownRows = rows;
            knownTook = took;
        }
    }
}
