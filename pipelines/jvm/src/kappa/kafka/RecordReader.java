package kappa.kafka;

import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumer;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer;
import org.apache.spark.util.UninterruptibleThread;
import scala.runtime.AbstractFunction0;

/**
 * Reads the records of one partition for one task.
 *
 * <p>It polls a consumer of Spark's pool, and requests neither the first nor the last offset of the partition. A consumer never continues at another
 * offset by itself (auto.offset.reset is none), so an offset that a poll leaves out was there and has no record to read: compaction has removed it,
 * or it is that of a transaction. Where a poll gives nothing or fails, Spark's own reader reads the rest, and decides what that means: lost records,
 * an aborted transaction at the end, or a broker that does not answer.
 */
final class RecordReader implements PartitionReader<InternalRow> {
    private static final long PATIENCE_MILLIS = 10_000;
    /** What kept consumers have delivered beyond the end of their last task. */
    private static final Map<InternalKafkaConsumer, Polled> KEPT = Collections.synchronizedMap(new WeakHashMap<>());

    private final KafkaBatchInputPartition part;
    private final long end;
    private final KafkaDataConsumer spark;
    private final InternalKafkaConsumer consumer;
    private final RecordRow row;
    private long next;
    private Polled polled;
    private int at;
    private boolean isLeftToSpark;

    /** What a poll at the offset `from` has delivered. */
    private record Polled(long from, List<ConsumerRecord<byte[], byte[]>> records) {}

    static final class Factory implements PartitionReaderFactory {
        private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            return new RecordReader((KafkaBatchInputPartition) partition);
        }
    }

    private RecordReader(KafkaBatchInputPartition part) {
        this.part = part;
        KafkaOffsetRange range = part.offsetRange();
        row = new RecordRow(range.topic(), range.partition(), part.includeHeaders());
        spark = KafkaDataConsumer.acquire(range.topicPartition(), part.executorKafkaParams());
        // The range of a table may name the first and the last record instead of their offsets.
        boolean isKnown = range.fromOffset() >= 0 && range.untilOffset() >= 0;
        KafkaDataConsumer.AvailableOffsetRange log = isKnown ? null : spark.getAvailableOffsetRange();
        next = range.fromOffset() >= 0 ? range.fromOffset() : log.earliest();
        end = range.untilOffset() >= 0 ? range.untilOffset() : log.latest();
        consumer = spark.getOrRetrieveConsumer();
        polled = KEPT.remove(consumer);
        if (polled == null || polled.from != next) {
            consumer.seek(next);
            polled = new Polled(next, List.of());
        }
    }

    @Override
    public boolean next() {
        if (next >= end) {
            return false;
        }
        ConsumerRecord<byte[], byte[]> record = isLeftToSpark ? readWithSpark() : read();
        if (record == null || record.offset() >= end) {
            next = end;
            return false;
        }
        row.set(record);
        next = record.offset() + 1;
        return true;
    }

    private ConsumerRecord<byte[], byte[]> read() {
        if (at == polled.records.size()) {
            polled = new Polled(next, poll());
            at = 0;
            if (polled.records.isEmpty()) {
                isLeftToSpark = true;
                return readWithSpark();
            }
        }
        ConsumerRecord<byte[], byte[]> record = polled.records.get(at);
        if (record.offset() < end) {
            at++;
        }
        return record;
    }

    private List<ConsumerRecord<byte[], byte[]>> poll() {
        try {
            return ((UninterruptibleThread) Thread.currentThread()).runUninterruptibly(new AbstractFunction0<>() {
                @Override
                public List<ConsumerRecord<byte[], byte[]>> apply() {
                    return consumer.poll(Math.min(PATIENCE_MILLIS, part.pollTimeoutMs()));
                }
            });
        } catch (OffsetOutOfRangeException error) { // Spark's reader has it too, and names the records that are lost
            return List.of();
        }
    }

    private ConsumerRecord<byte[], byte[]> readWithSpark() {
        return spark.get(next, end, part.pollTimeoutMs(), part.failOnDataLoss());
    }

    @Override
    public InternalRow get() {
        return row;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
        return new CustomTaskMetric[] {
            new Metric("offsetOutOfRange", spark.getNumOffsetOutOfRange()), new Metric("dataLoss", spark.getNumDataLoss())
        };
    }

    private record Metric(String name, long value) implements CustomTaskMetric {}

    /** The next task of the partition begins where this one ends, so it takes what is left. */
    @Override
    public void close() {
        if (!isLeftToSpark && next == end) {
            KEPT.put(consumer, new Polled(end, List.copyOf(polled.records.subList(at, polled.records.size()))));
        }
        spark.release();
    }
}
