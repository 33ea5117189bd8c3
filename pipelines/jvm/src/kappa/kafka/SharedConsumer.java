package kappa.kafka;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.util.UninterruptibleThread;
import scala.runtime.AbstractFunction0;

/**
 * A consumer that tasks use one after another (ADR 99). It is assigned partitions that several tasks read, and fetches only those that the present
 * one reads. What it has fetched beyond the end of a task, it keeps for the one that continues there.
 */
final class SharedConsumer {
    private static final long UNKNOWN = -1;

    private final KafkaConsumer<byte[], byte[]> kafka;
    /** What it has delivered beyond the end of the last task of a partition. The position of a partition that is not here means nothing. */
    private final Map<TopicPartition, Ahead> ahead = new HashMap<>();
    private Set<TopicPartition> assigned = Set.of();
    private long idleSince;

    /** The records that follow those before the offset `from`. */
    private record Ahead(long from, List<ConsumerRecord<byte[], byte[]>> records) {}

    SharedConsumer(Map<String, Object> settings) {
        kafka = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** Return how well it fits a task: two for each partition that it continues, one for being assigned its partitions already. */
    int fit(Collection<TopicRange> ranges, Set<TopicPartition> home) {
        int continued = 0;
        for (TopicRange range : ranges) {
            Ahead found = ahead.get(range.partition);
            continued += found != null && found.from == range.next ? 1 : 0;
        }
        return 2 * continued + (assigned.equals(home) ? 1 : 0);
    }

    /** Fetch these ranges only, whose partitions are in `home`. Return the records that were fetched before, by their partition. */
    Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> begin(Collection<TopicRange> ranges, Set<TopicPartition> home) {
        assign(home);
        Map<TopicPartition, List<ConsumerRecord<byte[], byte[]>>> fetched = new HashMap<>();
        Set<TopicPartition> others = new HashSet<>(home);
        for (TopicRange range : ranges) {
            others.remove(range.partition);
            Ahead found = ahead.remove(range.partition);
            if (found == null || found.from != range.next) {
                kafka.seek(range.partition, range.next);
            } else if (!found.records.isEmpty()) {
                fetched.put(range.partition, found.records);
            }
        }
        kafka.pause(others);
        kafka.resume(ranges.stream().map(range -> range.partition).toList());
        return fetched;
    }

    private void assign(Set<TopicPartition> home) {
        if (assigned.equals(home)) {
            return;
        }
        kafka.assign(home);
        ahead.keySet().retainAll(home);
        for (TopicPartition each : home) {
            if (!assigned.contains(each)) { // Kafka's client accepts no partition without a position, also of those that are not fetched
                kafka.seek(each, 0);
            }
        }
        assigned = Set.copyOf(home);
    }

    ConsumerRecords<byte[], byte[]> poll(long millis) {
        return ((UninterruptibleThread) Thread.currentThread()).runUninterruptibly(new AbstractFunction0<>() {
            @Override
            public ConsumerRecords<byte[], byte[]> apply() {
                return kafka.poll(Duration.ofMillis(millis));
            }
        });
    }

    /** Return the offset before which all records have been delivered; -1 while Kafka's client verifies it after a change of the leader. */
    long position(TopicPartition partition) {
        try {
            return kafka.position(partition, Duration.ZERO);
        } catch (TimeoutException verified) {
            return UNKNOWN;
        }
    }

    void pause(Collection<TopicPartition> partitions) {
        kafka.pause(partitions);
    }

    /** Keep the records that it has delivered from the offset `end` on. */
    void keep(TopicPartition partition, long end, List<ConsumerRecord<byte[], byte[]>> records) {
        ahead.putIfAbsent(partition, new Ahead(end, records));
    }

    void rest(long now) {
        idleSince = now;
    }

    boolean isIdle(long now, long nanos) {
        return now - idleSince > nanos;
    }

    void close() {
        try {
            kafka.close(Duration.ZERO);
        } catch (KafkaException interrupted) {
            // It is closed all the same.
        }
    }
}
