package kappa.kafka;

import java.lang.reflect.Field;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadAllAvailable;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaOffsetRangeLimit;
import org.apache.spark.sql.kafka010.KafkaSourceOffset;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Spark's Kafka source with another reader of records (ADR 91), and with batches that are bounded by their time (ADR 96). Schema, offsets and plans
 * are those of Spark, so a checkpoint fits both.
 *
 * <p>Five options are its own. `kappaTasks` is the number of tasks that read more partitions than that, and `kappaConsumers` that of consumers which a
 * JVM keeps for all queries (ADR 99). `kappaTargetMillis` is the time that a batch is to take, `kappaFirstRecords` and `kappaMostRecords` are the bound
 * of the first batch and the largest one, in records of a source. An option of Spark that limits batches is stronger.
 */
public final class Source extends KafkaSourceProvider {
    /** Return a name that is not Spark's: by that, Spark reads a batch in another way. */
    @Override
    public String shortName() {
        return "kappa-kafka";
    }

    /** Has the query with this checkpoint begin with a bound instead of `kappaFirstRecords`: a driver before has measured it. */
    public static void expect(String checkpoint, long records) {
        Stream.EXPECTED.put(checkpoint + "/sources/", records);
    }

    @Override
    public KafkaTable getTable(CaseInsensitiveStringMap options) {
        return new SourceTable(this, options.getBoolean("includeHeaders", false));
    }

    private static PartitionReaderFactory createReaders(CaseInsensitiveStringMap options) {
        return new RecordReader.Factory(options.getInt("kappaConsumers", 0));
    }

    private static final class SourceTable extends KafkaTable {
        private final KafkaSourceProvider provider;

        SourceTable(KafkaSourceProvider provider, boolean includeHeaders) {
            provider.super(includeHeaders);
            this.provider = provider;
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return () -> new SourceScan(provider, options);
        }
    }

    private static final class SourceScan extends KafkaScan {
        private final CaseInsensitiveStringMap options;

        SourceScan(KafkaSourceProvider provider, CaseInsensitiveStringMap options) {
            provider.super(options);
            this.options = options;
        }

        @Override
        public Batch toBatch() {
            Batch made = super.toBatch();
            return new Batch() {
                @Override
                public InputPartition[] planInputPartitions() {
                    return made.planInputPartitions();
                }

                @Override
                public PartitionReaderFactory createReaderFactory() {
                    return createReaders(options);
                }
            };
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return Stream.of((KafkaMicroBatchStream) super.toMicroBatchStream(checkpoint));
        }
    }

    /** The stream that Spark has made, with the reader and the bound of this module. */
    public static final class Stream extends KafkaMicroBatchStream {
        /** By the folder of all sources of a query, which share a bound. */
        private static final Map<String, BatchBound> BOUNDS = new ConcurrentHashMap<>();
        /** The first bound of queries that a driver before has measured, the same way. */
        private static final Map<String, Long> EXPECTED = new ConcurrentHashMap<>();

        private final String query;
        private final CaseInsensitiveStringMap options;

        /** Limits a batch by its time. */
        private record Timed() implements ReadLimit {}

        private Stream(KafkaMicroBatchStream made, Map<String, Object> consumer, CaseInsensitiveStringMap options, String path) {
            super(
                    made.kafkaOffsetReader(),
                    consumer,
                    options,
                    path,
                    (KafkaOffsetRangeLimit) read(made, "startingOffsets"),
                    (boolean) read(made, "failOnDataLoss"));
            query = path.substring(0, path.lastIndexOf('/') + 1);
            this.options = options;
        }

        @SuppressWarnings("unchecked")
        static Stream of(KafkaMicroBatchStream made) {
            Map<String, Object> consumer = (Map<String, Object>) read(made, "executorKafkaParams");
            return new Stream(made, consumer, (CaseInsensitiveStringMap) read(made, "options"), (String) read(made, "metadataPath"));
        }

        private static Object read(KafkaMicroBatchStream made, String name) {
            try {
                Field field = KafkaMicroBatchStream.class.getDeclaredField(name);
                field.setAccessible(true);
                return field.get(made);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException("another version of Spark: its Kafka source has no field " + name, error);
            }
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return createReaders(options);
        }

        @Override
        public InputPartition[] planInputPartitions(Offset start, Offset end) {
            InputPartition[] planned = super.planInputPartitions(start, end);
            return PartitionGroup.divide(planned, options.getInt("kappaTasks", 0), readOffsets(end).keySet());
        }

        @Override
        public ReadLimit getDefaultReadLimit() {
            ReadLimit found = super.getDefaultReadLimit();
            return found instanceof ReadAllAvailable && options.containsKey("kappaTargetMillis") ? timed() : found;
        }

        /** Returns the limit by which the time of a batch bounds it. */
        public ReadLimit timed() {
            return new Timed();
        }

        @Override
        public Offset latestOffset(Offset start, ReadLimit limit) {
            if (!(limit instanceof Timed)) {
                return super.latestOffset(start, limit);
            }
            long now = System.nanoTime();
            BatchBound bound = BOUNDS.computeIfAbsent(query, path -> createBound());
            Offset end = super.latestOffset(start, ReadLimit.maxRows(bound.records()));
            bound.plan(count(start, end), now);
            return end;
        }

        private BatchBound createBound() {
            double target = options.getLong("kappaTargetMillis", 0) * 1e6;
            long first = EXPECTED.getOrDefault(query, options.getLong("kappaFirstRecords", 0));
            return new BatchBound(target, first, options.getLong("kappaMostRecords", 0));
        }

        /** Returns the number of offsets between both; those of partitions that are new do not count. */
        private static long count(Offset start, Offset end) {
            Map<?, Object> from = readOffsets(start);
            Map<?, Object> to = end == null ? from : readOffsets(end);
            long rows = 0;
            for (Map.Entry<?, Object> each : to.entrySet()) {
                rows += (long) each.getValue() - (long) from.getOrDefault(each.getKey(), each.getValue());
            }
            return rows;
        }

        private static Map<TopicPartition, Object> readOffsets(Offset found) {
            return CollectionConverters.asJava(((KafkaSourceOffset) found).partitionToOffsets());
        }

        /** Spark requests them at the end of each batch. */
        @Override
        public Map<String, String> metrics(Optional<Offset> read) {
            BatchBound bound = BOUNDS.get(query);
            if (bound == null) {
                return super.metrics(read);
            }
            bound.end(System.nanoTime());
            Map<String, String> found = new HashMap<>(super.metrics(read));
            found.put("maxRecords", Long.toString(bound.records()));
            return found;
        }

        @Override
        public void stop() {
            BOUNDS.remove(query);
            EXPECTED.remove(query);
            super.stop();
        }
    }
}
