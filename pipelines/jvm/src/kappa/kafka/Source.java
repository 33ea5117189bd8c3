package kappa.kafka;

import java.lang.reflect.Field;
import java.util.Map;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaMicroBatchStream;
import org.apache.spark.sql.kafka010.KafkaOffsetRangeLimit;
import org.apache.spark.sql.kafka010.KafkaSourceProvider;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's Kafka source with another reader of records (ADR 91). Options, schema, offsets and plans are those of Spark, so a checkpoint fits both.
 */
public final class Source extends KafkaSourceProvider {
    /** Return a name that is not Spark's: by that, Spark reads a batch in another way. */
    @Override
    public String shortName() {
        return "kappa-kafka";
    }

    @Override
    public KafkaTable getTable(CaseInsensitiveStringMap options) {
        return new SourceTable(this, options.getBoolean("includeHeaders", false));
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
        SourceScan(KafkaSourceProvider provider, CaseInsensitiveStringMap options) {
            provider.super(options);
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
                    return new RecordReader.Factory();
                }
            };
        }

        @Override
        public MicroBatchStream toMicroBatchStream(String checkpoint) {
            return Stream.of((KafkaMicroBatchStream) super.toMicroBatchStream(checkpoint));
        }
    }

    /** The stream that Spark has made, with the reader of this module. */
    static final class Stream extends KafkaMicroBatchStream {
        private Stream(KafkaMicroBatchStream made, Map<String, Object> consumer, CaseInsensitiveStringMap options, String path) {
            super(
                    made.kafkaOffsetReader(),
                    consumer,
                    options,
                    path,
                    (KafkaOffsetRangeLimit) read(made, "startingOffsets"),
                    (boolean) read(made, "failOnDataLoss"));
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
            return new RecordReader.Factory();
        }
    }
}
