package kappa.kafka;

import java.sql.Timestamp;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;

/** A record as a row with the columns of Spark's Kafka source: one object for all records of a task. Plans copy the columns that they keep. */
final class RecordRow extends GenericInternalRow {
    private static final long serialVersionUID = 1L;
    private static final int KEY = 0, VALUE = 1, TOPIC = 2, PARTITION = 3, OFFSET = 4, TIMESTAMP = 5, TIMESTAMP_TYPE = 6, HEADERS = 7;
    private static final long FIRST_MILLIS = -62_135_596_800_000L, LAST_MILLIS = 253_402_300_799_999L, MICROS = 1000;

    private final boolean hasHeaders;

    RecordRow(boolean hasHeaders) {
        super(new Object[hasHeaders ? HEADERS + 1 : HEADERS]);
        this.hasHeaders = hasHeaders;
    }

    /** The records that follow are of this partition. */
    void begin(TopicPartition partition) {
        update(TOPIC, UTF8String.fromString(partition.topic()));
        update(PARTITION, partition.partition());
    }

    void set(ConsumerRecord<byte[], byte[]> record) {
        update(KEY, record.key());
        update(VALUE, record.value());
        update(OFFSET, record.offset());
        update(TIMESTAMP, convert(record.timestamp()));
        update(TIMESTAMP_TYPE, record.timestampType().id);
        if (hasHeaders) {
            update(HEADERS, convert(record.headers().toArray()));
        }
    }

    /**
     * Return microseconds: -1 ms, no timestamp, for one that is not in the years 1 to 9999, as any producer may write, and no query may fail by it. Spark
     * moves times of the Julian calendar, which are long before 1970.
     */
    private static long convert(long millis) {
        if (millis < FIRST_MILLIS || millis > LAST_MILLIS) {
            return -MICROS;
        }
        return millis >= -1 ? millis * MICROS : DateTimeUtils.fromJavaTimestamp(new Timestamp(millis));
    }

    private static GenericArrayData convert(Header[] headers) {
        if (headers.length == 0) {
            return null;
        }
        InternalRow[] rows = new InternalRow[headers.length];
        for (int at = 0; at < rows.length; at++) {
            rows[at] = new GenericInternalRow(new Object[] {UTF8String.fromString(headers[at].key()), headers[at].value()});
        }
        return new GenericArrayData(rows);
    }
}
