package kappa.kafka;

import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.kafka010.KafkaBatchInputPartition;
import org.apache.spark.sql.kafka010.KafkaOffsetRange;
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer;

/** The offsets that a task reads of one partition, and how far it is. */
final class TopicRange {
    final KafkaBatchInputPartition part;
    final TopicPartition partition;
    final long end;
    long next;

    TopicRange(KafkaBatchInputPartition part) {
        this.part = part;
        KafkaOffsetRange range = part.offsetRange();
        partition = range.topicPartition();
        // The range of a table may name the first and the last record instead of their offsets.
        boolean isKnown = range.fromOffset() >= 0 && range.untilOffset() >= 0;
        KafkaDataConsumer.AvailableOffsetRange log = isKnown ? null : read(part);
        next = range.fromOffset() >= 0 ? range.fromOffset() : log.earliest();
        end = range.untilOffset() >= 0 ? range.untilOffset() : log.latest();
    }

    private static KafkaDataConsumer.AvailableOffsetRange read(KafkaBatchInputPartition part) {
        KafkaDataConsumer spark = KafkaDataConsumer.acquire(part.offsetRange().topicPartition(), part.executorKafkaParams());
        try {
            return spark.getAvailableOffsetRange();
        } finally {
            spark.release();
        }
    }
}
