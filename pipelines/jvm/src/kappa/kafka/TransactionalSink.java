package kappa.kafka;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/**
 * A sink of streaming queries: each task writes its rows and a commit marker in one transaction of Kafka (ADR 80).
 *
 * <p>Rows have the columns `value`, and optionally `key`, `topic` and `headers`, as for Spark's own sink. A row without a topic goes to that of
 * the option `topic`. The number of a task is that of its writer, so rows must be distributed by something that a repeated batch has again.
 */
public final class TransactionalSink extends RowTable {
    @Override
    public String name() {
        return "exactly-once";
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new Batches(info);
    }

    private record Batches(LogicalWriteInfo info) implements EachMode {
        @Override
        public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
            Publisher publisher = Publisher.of(info);
            Columns columns = Columns.of(info.schema());
            return (number, task, batch) -> new Writer(publisher, columns, number, batch);
        }

        /** Kafka decides which attempt of a task writes. Spark would end the query where an attempt that it has chosen fails. */
        @Override
        public boolean useCommitCoordinator() {
            return false;
        }
    }
}
