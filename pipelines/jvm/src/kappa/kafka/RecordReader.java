package kappa.kafka;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer;

/**
 * Reads the records of one task, of one partition or several, by one consumer.
 *
 * <p>It requests neither the first nor the last offset of a partition. A consumer never continues at another offset by itself (auto.offset.reset is
 * none), so an offset that a poll leaves out was there and has no record to read: compaction has removed it, or it is that of a transaction. A range
 * has been read when the position of the consumer is at its end. Where nothing comes, or an offset is not there, Spark's own reader reads the rest,
 * and decides what that means: lost records, or a broker that does not answer.
 */
final class RecordReader implements PartitionReader<InternalRow> {
    private static final long PATIENCE_MILLIS = 10_000;

    private final Map<String, Object> settings;
    private final long patience;
    private final RecordRow row;
    private final SharedConsumer consumer;
    /** Those that are not read to their end. */
    private final Map<TopicPartition, TopicRange> open = new LinkedHashMap<>();
    private final Deque<Polled> polled = new ArrayDeque<>();
    private final Deque<TopicRange> leftToSpark = new ArrayDeque<>();
    private TopicRange range;
    private List<ConsumerRecord<byte[], byte[]>> records = List.of();
    private int at;
    private KafkaDataConsumer spark;
    private long offsetOutOfRange;
    private long dataLoss;
    private boolean isClosed;

    /** Records of one partition that the consumer has delivered, in their order. */
    private record Polled(TopicRange range, List<ConsumerRecord<byte[], byte[]>> records) {}

    /** Readers of which each JVM keeps so many consumers, 0 for as many as its cores need. */
    record Factory(int consumers) implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            if (partition instanceof PartitionGroup group) {
                return new RecordReader(group.ranges(), group.home(), consumers);
            }
            KafkaBatchInputPartition single = (KafkaBatchInputPartition) partition;
            return new RecordReader(List.of(single), Set.of(single.offsetRange().topicPartition()), consumers);
        }
    }

    private RecordReader(List<KafkaBatchInputPartition> parts, Set<TopicPartition> home, int consumers) {
        KafkaBatchInputPartition first = parts.get(0);
        settings = first.executorKafkaParams();
        patience = Math.min(PATIENCE_MILLIS, first.pollTimeoutMs());
        row = new RecordRow(first.includeHeaders());
        for (KafkaBatchInputPartition part : parts) {
            TopicRange each = new TopicRange(part);
            open.put(each.partition, each);
        }
        consumer = Consumers.take(settings, consumers, open.values(), home);
        try {
            consumer.begin(open.values(), home).forEach((partition, fetched) -> polled.add(new Polled(open.get(partition), fetched)));
        } catch (RuntimeException error) {
            Consumers.drop(settings, consumer);
            throw error;
        }
    }

    @Override
    public boolean next() {
        ConsumerRecord<byte[], byte[]> record = read();
        if (record == null) {
            return false;
        }
        row.set(record);
        return true;
    }

    private ConsumerRecord<byte[], byte[]> read() {
        while (true) {
            if (at < records.size()) {
                ConsumerRecord<byte[], byte[]> record = records.get(at);
                if (record.offset() < range.end) {
                    at++;
                    return record;
                }
            }
            if (!advance()) {
                return readWithSpark();
            }
        }
    }

    /** Take the next records that were delivered; return whether there are any, before the rest is left to Spark's reader. */
    private boolean advance() {
        setAside();
        while (polled.isEmpty()) {
            finish();
            if (open.isEmpty()) {
                return false;
            }
            poll();
        }
        Polled taken = polled.remove();
        begin(taken.range);
        records = taken.records;
        return true;
    }

    private void begin(TopicRange next) {
        range = next;
        row.begin(next.partition);
    }

    /** The next task of the partition begins where this one ends, so it takes what is left. */
    private void setAside() {
        if (at < records.size()) {
            consumer.keep(range.partition, range.end, List.copyOf(records.subList(at, records.size())));
            range.next = range.end;
        } else if (at > 0) {
            range.next = records.get(at - 1).offset() + 1;
        }
        records = List.of();
        at = 0;
    }

    /** All records that were delivered have been read. */
    private void finish() {
        List<TopicPartition> read = new ArrayList<>();
        for (Iterator<TopicRange> each = open.values().iterator(); each.hasNext(); ) {
            TopicRange found = each.next();
            if (found.next >= found.end || consumer.position(found.partition) >= found.end) {
                each.remove();
                read.add(found.partition);
                consumer.keep(found.partition, found.end, List.of());
            }
        }
        if (!open.isEmpty()) {
            consumer.pause(read);
        }
    }

    private void poll() {
        long before = addPositions();
        try {
            ConsumerRecords<byte[], byte[]> found = consumer.poll(patience);
            for (TopicPartition each : found.partitions()) {
                polled.add(new Polled(open.get(each), found.records(each)));
            }
            if (found.isEmpty() && addPositions() == before) {
                List.copyOf(open.keySet()).forEach(this::leaveToSpark);
            }
        } catch (OffsetOutOfRangeException error) { // Spark's reader has it too, and names the records that are lost
            error.offsetOutOfRangePartitions().keySet().forEach(this::leaveToSpark);
        }
    }

    private long addPositions() {
        return open.keySet().stream().mapToLong(consumer::position).sum();
    }

    private void leaveToSpark(TopicPartition partition) {
        TopicRange found = open.remove(partition); // null for one that is read, of which the consumer had requested more
        if (found != null) {
            consumer.pause(List.of(partition));
            leftToSpark.add(found);
        }
    }

    private ConsumerRecord<byte[], byte[]> readWithSpark() {
        while (spark != null || !leftToSpark.isEmpty()) {
            if (spark == null) {
                begin(leftToSpark.element());
                spark = KafkaDataConsumer.acquire(range.partition, range.part.executorKafkaParams());
            }
            ConsumerRecord<byte[], byte[]> record = range.next < range.end
                    ? spark.get(range.next, range.end, range.part.pollTimeoutMs(), range.part.failOnDataLoss())
                    : null;
            if (record != null && record.offset() < range.end) {
                range.next = record.offset() + 1;
                return record;
            }
            leftToSpark.remove();
            release();
        }
        return null;
    }

    private void release() {
        offsetOutOfRange += spark.getNumOffsetOutOfRange();
        dataLoss += spark.getNumDataLoss();
        spark.release();
        spark = null;
    }

    @Override
    public InternalRow get() {
        return row;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
        long outOfRange = offsetOutOfRange + (spark == null ? 0 : spark.getNumOffsetOutOfRange());
        long lost = dataLoss + (spark == null ? 0 : spark.getNumDataLoss());
        return new CustomTaskMetric[] {new Metric("offsetOutOfRange", outOfRange), new Metric("dataLoss", lost)};
    }

    private record Metric(String name, long value) implements CustomTaskMetric {}

    @Override
    public void close() {
        if (isClosed) { // its consumer may have another task already
            return;
        }
        isClosed = true;
        boolean isRead = open.isEmpty() && leftToSpark.isEmpty();
        if (spark != null) {
            release();
        }
        if (isRead) {
            Consumers.keep(settings, consumer);
        } else {
            Consumers.drop(settings, consumer);
        }
    }
}
