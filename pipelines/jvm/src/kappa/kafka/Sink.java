package kappa.kafka;

import java.util.Set;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;

/**
 * A sink of streaming queries and tables that writes each row at least once, with a producer for each task (ADR 91).
 *
 * <p>Rows have the columns of {@link TransactionalSink}. A row without a topic goes to that of the option `topic`.
 */
public final class Sink extends RowTable {
    @Override
    public String name() {
        return "at-least-once";
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.STREAMING_WRITE, TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new Rows(info);
    }

    private record Rows(LogicalWriteInfo info) implements EachMode, BatchWrite {
        @Override
        public BatchWrite toBatch() {
            return this;
        }

        @Override
        public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
            Producers.Settings settings = Producers.Settings.of(info.options());
            Columns columns = Columns.of(info.schema());
            return (number, task, batch) -> new RowWriter(settings, columns);
        }

        @Override
        public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
            Producers.Settings settings = Producers.Settings.of(info.options());
            Columns columns = Columns.of(info.schema());
            return (number, task) -> new RowWriter(settings, columns);
        }

        /** An attempt that fails may have written rows in any case. */
        @Override
        public boolean useCommitCoordinator() {
            return false;
        }

        @Override
        public void commit(WriterCommitMessage[] messages) {}

        @Override
        public void abort(WriterCommitMessage[] messages) {}
    }
}
