package kappa.kafka;

import java.time.Duration;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/** Writes the rows of one task, and waits at its end until Kafka has them. An error is that of Kafka's client, as with Spark's sink. */
final class RowWriter implements DataWriter<InternalRow>, Callback {
    private final Producers.Settings settings;
    private final Columns columns;
    /** Null after the end of the task. */
    private KafkaProducer<byte[], byte[]> producer;
    private volatile Exception refused;

    RowWriter(Producers.Settings settings, Columns columns) {
        this.settings = settings;
        this.columns = columns;
        producer = Producers.take(settings);
    }

    @Override
    public void onCompletion(RecordMetadata written, Exception error) {
        if (error != null && refused == null) {
            refused = error;
        }
    }

    @Override
    public void write(InternalRow row) {
        check();
        producer.send(columns.read(row, settings.topic()), this);
    }

    @Override
    public WriterCommitMessage commit() {
        producer.flush();
        check();
        Producers.keep(producer, settings);
        producer = null;
        return null;
    }

    private void check() {
        if (refused != null) {
            RowWriter.<RuntimeException>fail(refused);
        }
    }

    /** Throw an exception of any kind, as Spark's sink does. */
    @SuppressWarnings("unchecked")
    private static <E extends Exception> void fail(Exception error) throws E {
        throw (E) error;
    }

    @Override
    public void abort() {
        close();
    }

    /** Records that are not sent yet are dropped: a repeated task writes them, and they must not follow its own. */
    @Override
    public void close() {
        if (producer != null) {
            producer.close(Duration.ZERO);
            producer = null;
        }
    }
}
