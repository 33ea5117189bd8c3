package kappa.state;

import java.io.Serializable;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;

/** What an operator does with the rows of a key. Each task has an object of its own. */
interface Step extends Serializable {
    /** The watermark of a key that waits for nothing. */
    long NEVER = Long.MAX_VALUE;

    /** Declare state beside the rows of keys. */
    default void init(StatefulProcessorHandle handle) {}

    /** Called once in each task, before the rows of keys. */
    void open();

    /** Add the output of events that are final at the watermark, mark or remove them, and remove rows that no later event needs. */
    void advance(Kept kept, long watermark, Output output);

    /** Return the watermark at which the key has output or has no rows that are needed. */
    long findWake(Kept kept);
}
