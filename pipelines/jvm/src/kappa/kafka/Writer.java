package kappa.kafka;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.common.KafkaException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * Writes the rows of one task.
 *
 * <p>It reads its writer's marker, has Kafka fence off other clients with the writer's transactional.id, and reads the marker again. Then no other
 * client can write with that id, and the marker is final. A client stays open for later tasks while the marker names it as the last one to
 * write, because opening one takes longer than writing a small batch.
 */
final class Writer implements DataWriter<InternalRow> {
    private static final int KEPT_CLIENTS = Math.max(4, 2 * Runtime.getRuntime().availableProcessors());
    /** For a marker that a kept client wrote last, or whose writer another process has fenced off. */
    private static final Duration KEPT_PATIENCE = Duration.ofSeconds(5);

    private static final Map<Identity, Client> KEPT = new LinkedHashMap<>();

    private final Publisher publisher;
    private final Columns columns;
    private final int number;
    private final long batch;
    private long begin = System.nanoTime();
    /** Null before the first row: a task without rows needs no marker, as its repetition has no rows either. */
    private Client client;
    private CommitMarker marker;
    private boolean isWritten;

    Writer(Publisher publisher, Columns columns, int number, long batch) {
        this.publisher = publisher;
        this.columns = columns;
        this.number = number;
        this.batch = batch;
    }

    @Override
    public void write(InternalRow row) throws PublishError {
        try {
            if (client == null) {
                start();
            }
            if (!isWritten) {
                client.send(columns.read(row, publisher.topic()));
            }
        } catch (KafkaException error) {
            throw explain(error);
        }
    }

    @Override
    public WriterCommitMessage commit() throws PublishError {
        if (client == null) {
            return null;
        }
        try {
            if (!isWritten) {
                client.commit(batch + 1, marker.after(publisher.incarnation(), batch, client.name));
            }
        } catch (KafkaException error) {
            throw explain(error);
        }
        keep();
        return null;
    }

    @Override
    public void abort() {
        close();
    }

    @Override
    public void close() {
        if (client != null) {
            client.close();
            client = null;
        }
    }

    private PublishError explain(KafkaException error) {
        return PublishError.explain(publisher, error, Duration.ofNanos(System.nanoTime() - begin).toSeconds());
    }

    /** Open a transaction, unless the batch is written. */
    private void start() throws PublishError {
        if (!reuse()) {
            close();
            client = new Client(publisher, number);
            Duration patience = publisher.duration("max.block.ms"); // as long as the producer waits for Kafka
            // Before any client is fenced off: a task of a fenced driver must not fence off a newer one.
            isWritten = decide(client.read(false, patience));
            if (isWritten) {
                return;
            }
            client.claim();
            marker = client.read(true, patience);
        }
        isWritten = decide(marker);
        if (!isWritten) {
            client.begin();
            begin = System.nanoTime();
        }
    }

    /** Take the client that stayed open, and return whether it was the last one to write. */
    private boolean reuse() {
        client = take();
        if (client == null) {
            return false;
        }
        try {
            marker = client.read(true, KEPT_PATIENCE);
        } catch (KafkaException failed) { // for example another process died during its commit
            return false;
        }
        return marker != null && marker.producer().equals(client.name);
    }

    /** Return whether the batch is written; PublishError if it must not be. */
    private boolean decide(CommitMarker found) throws PublishError {
        return switch (CommitMarker.decide(found, publisher.generation(), publisher.incarnation(), batch)) {
            case FENCED -> throw new PublishError(publisher, "FENCED", "a newer driver has acquired the writers");
            case LOST -> throw new PublishError(
                    publisher, "MARKER_LOST", "Kafka has deleted the commit markers of the group " + publisher.group());
            case WRITTEN -> true;
            case TO_WRITE -> false;
        };
    }

    private Client take() {
        synchronized (KEPT) {
            return KEPT.remove(identity());
        }
    }

    private void keep() {
        Client last = null;
        synchronized (KEPT) {
            KEPT.put(identity(), client);
            if (KEPT.size() > KEPT_CLIENTS) {
                last = KEPT.remove(KEPT.keySet().iterator().next());
            }
        }
        client = null;
        if (last != null) {
            last.close();
        }
    }

    private Identity identity() {
        return new Identity(publisher, number);
    }

    private record Identity(Publisher publisher, int number) {}
}
