package kappa.state;

import java.io.Serializable;

/**
 * One position in a pattern: the number of its step, and its successors, the preferred first.
 *
 * <p>With `absent`, an event that does not satisfy the step is skipped.
 */
record Position(int step, boolean absent, int[] follow) implements Serializable {
    /** The position before the first event, and the successors of the last event of a match, and of one with which it ends if no other comes in time. */
    static final int START = 0, DONE = -1, AT_END = -2;

    /** The number of the step of an event that a negation skips. */
    static final byte PASSED = 0;

    boolean leadsTo(int position) {
        for (int each : follow) {
            if (each == position) {
                return true;
            }
        }
        return false;
    }
}
