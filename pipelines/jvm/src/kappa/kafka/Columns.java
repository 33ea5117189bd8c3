package kappa.kafka;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.StructType;

/** Where the columns of a record are in a row; -1 for those that it does not have. Keys and values are text. */
record Columns(int key, int value, int topic, int headers) implements Serializable {
    static Columns of(StructType schema) {
        List<String> names = Arrays.asList(schema.fieldNames());
        return new Columns(names.indexOf("key"), names.indexOf("value"), names.indexOf("topic"), names.indexOf("headers"));
    }

    /** Return the record in a row; `otherwise` is the topic of one that names none. */
    ProducerRecord<byte[], byte[]> read(InternalRow row, String otherwise) {
        String own = has(row, topic) ? row.getUTF8String(topic).toString() : otherwise;
        return new ProducerRecord<>(own, null, readBytes(row, key), readBytes(row, value), readHeaders(row));
    }

    private static boolean has(InternalRow row, int column) {
        return column >= 0 && !row.isNullAt(column);
    }

    private static byte[] readBytes(InternalRow row, int column) {
        return has(row, column) ? row.getUTF8String(column).getBytes() : null;
    }

    private List<Header> readHeaders(InternalRow row) {
        if (!has(row, headers)) {
            return null;
        }
        ArrayData found = row.getArray(headers);
        List<Header> read = new ArrayList<>(found.numElements());
        for (int at = 0; at < found.numElements(); at++) {
            InternalRow header = found.getStruct(at, 2);
            read.add(new RecordHeader(header.getUTF8String(0).toString(), header.getBinary(1)));
        }
        return read;
    }
}
