package kappa.kafka;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A producer with the transactional.id of a writer, and the reader of its commit marker. Methods throw KafkaException; none waits without limit. */
final class Client implements AutoCloseable {
    private static final Duration CLOSING = Duration.ofSeconds(5);
    private static final long PAUSE_MILLIS = 20;

    final String name = UUID.randomUUID().toString().replace("-", "").substring(0, 12);
    private final Publisher publisher;
    private final int number;
    private final TopicPartition key;
    private final Admin admin;
    private KafkaProducer<byte[], byte[]> producer;
    private volatile KafkaException refused;

    Client(Publisher publisher, int number) {
        this.publisher = publisher;
        this.number = number;
        key = new TopicPartition(publisher.topic(), number);
        admin = Admin.create(publisher.kafka());
    }

    /**
     * Return the marker, null if there is none. With `isStable`, wait for the marker of a commit that is under way; if its client died, until another
     * one has fenced it off.
     */
    CommitMarker read(boolean isStable, Duration patience) {
        long deadline = System.nanoTime() + patience.toNanos();
        while (true) {
            Map<TopicPartition, OffsetAndMetadata> found = fetch(isStable, patience);
            if (found.containsKey(key)) {
                OffsetAndMetadata offset = found.get(key);
                return offset == null ? null : CommitMarker.parse(offset.metadata());
            }
            if (System.nanoTime() > deadline) {
                throw new TimeoutException("the commit marker " + key + " of group " + publisher.group()
                        + " cannot be read: a transaction is open, or the user must not read its topic");
            }
            pause();
        }
    }

    /** Kafka's client leaves out a partition whose offset is not stable, or may not be read. */
    private Map<TopicPartition, OffsetAndMetadata> fetch(boolean isStable, Duration patience) {
        ListConsumerGroupOffsetsOptions options = new ListConsumerGroupOffsetsOptions().requireStable(isStable);
        ListConsumerGroupOffsetsSpec wanted = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(key));
        options.timeoutMs((int) patience.toMillis());
        try {
            return admin.listConsumerGroupOffsets(Map.of(publisher.group(), wanted), options).partitionsToOffsetAndMetadata().get();
        } catch (InterruptedException interrupted) {
            throw new InterruptException(interrupted);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof KafkaException error ? error : new KafkaException(failed.getCause());
        }
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MILLIS);
        } catch (InterruptedException interrupted) {
            throw new InterruptException(interrupted);
        }
    }

    /** Have Kafka fence off other clients with this transactional.id and abort their transaction. */
    void claim() {
        Map<String, Object> settings = new HashMap<>(publisher.kafka());
        settings.put("transactional.id", publisher.nameWriter(number));
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        producer.initTransactions();
    }

    void begin() {
        producer.beginTransaction();
    }

    void send(ProducerRecord<byte[], byte[]> record) {
        if (refused != null) {
            throw refused;
        }
        producer.send(record, (metadata, error) -> {
            if (error != null && refused == null) {
                refused = error instanceof KafkaException found ? found : new KafkaException(error);
            }
        });
    }

    /** Commit the transaction with a marker, whose offset is for people only. */
    void commit(long offset, CommitMarker marker) {
        producer.flush(); // so that the marker is pending for a short time only
        if (refused != null) {
            throw refused;
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(key, new OffsetAndMetadata(offset, marker.toText()));
        producer.sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(publisher.group()));
        producer.commitTransaction();
    }

    /** Close the connections; an open transaction is aborted, or the next client with this transactional.id aborts it. */
    @Override
    public void close() {
        try {
            if (producer != null) {
                producer.close(CLOSING);
            }
        } catch (KafkaException interrupted) {
            // It is closed all the same.
        } finally {
            admin.close(Duration.ZERO);
        }
    }
}
