package kappa.kafka;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
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
 * A sink of streaming queries: each task writes its rows and a commit marker in one transaction of Kafka (ADR 80).
 *
 * <p>Rows have the columns `value`, and optionally `key`, `topic` and `headers`, as for Spark's own sink. A row without a topic goes to that of
 * the option `topic`. The number of a task is that of its writer, so rows must be distributed by something that a repeated batch has again.
 */
public final class TransactionalSink implements TableProvider, SupportsWrite {
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
        return "exactly-once";
    }

    @Override
    public Column[] columns() {
        return new Column[0];
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.STREAMING_WRITE, TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new Batches(info);
    }

    /** Each output mode writes the rows that it has. */
    private record Batches(LogicalWriteInfo info) implements SupportsTruncate, SupportsStreamingUpdateAsAppend, Write, StreamingWrite {
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

        @Override
        public void commit(long batch, WriterCommitMessage[] messages) {}

        @Override
        public void abort(long batch, WriterCommitMessage[] messages) {}
    }
}
