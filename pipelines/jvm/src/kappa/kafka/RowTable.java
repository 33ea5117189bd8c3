package kappa.kafka;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What the sinks of rows have in common: they take the schema of the rows, and tasks write without the driver. */
abstract class RowTable implements TableProvider, SupportsWrite {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        return new StructType();
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return this;
    }

    @Override
    public Column[] columns() {
        return new Column[0];
    }

    /** Each output mode writes the rows that it has. */
    interface EachMode extends SupportsTruncate, SupportsStreamingUpdateAsAppend, Write, StreamingWrite {
        @Override
        default WriteBuilder truncate() {
            return this;
        }

        @Override
        default Write build() {
            return this;
        }

        @Override
        default StreamingWrite toStreaming() {
            return this;
        }

        @Override
        default void commit(long batch, WriterCommitMessage[] messages) {}

        @Override
        default void abort(long batch, WriterCommitMessage[] messages) {}
    }
}
