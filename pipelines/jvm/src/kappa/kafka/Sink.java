package kappa.kafka;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A sink of streaming queries and tables that writes each row at least once, with a producer for each task (ADR 91).
 *
 * <p>Rows have the columns of {@link TransactionalSink}. A row without a topic goes to that of the option `topic`.
 */
public final class Sink implements TableProvider, SupportsWrite {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return new StructType();
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return this;
    }

    @Override
    public String name() {
        return "at-least-once";
    }

    @Override
    public Column[] columns() {
        return new Column[0];
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.STREAMING_WRITE, TableCapability.BATCH_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new Rows(info);
    }

    private record Rows(LogicalWriteInfo info) implements SupportsTruncate, SupportsStreamingUpdateAsAppend, Write, StreamingWrite, BatchWrite {
        @Override
        public WriteBuilder truncate() {
            return this;
        }

        @Override
        public Write build() {
            return this;
        }

        @Override
        public StreamingWrite toStreaming() {
            return this;
        }

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
        public void commit(long batch, WriterCommitMessage[] messages) {}

        @Override
        public void abort(long batch, WriterCommitMessage[] messages) {}

        @Override
        public void commit(WriterCommitMessage[] messages) {}

        @Override
        public void abort(WriterCommitMessage[] messages) {}
    }
}
