package kappa.kafka;

import java.io.Serializable;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The producers of a JVM. A task has one of its own while it writes: tasks that share one wait for each other, because it compresses a record under
 * a lock. Those that no task has stay open for the next ones, the last that were used.
 */
final class Producers {
    private static final int KEPT = Math.max(4, 2 * Runtime.getRuntime().availableProcessors());
    private static final Map<KafkaProducer<byte[], byte[]>, Settings> IDLE = new LinkedHashMap<>();

    private Producers() {}

    /** The settings of a producer, in which secrets are references that it resolves, and the topic of rows that name none. */
    record Settings(HashMap<String, Object> kafka, String topic) implements Serializable {
        private static final String PREFIX = "kafka.";

        static Settings of(CaseInsensitiveStringMap options) {
            HashMap<String, Object> kafka = new HashMap<>();
            options.asCaseSensitiveMap().forEach((name, value) -> {
                if (name.startsWith(PREFIX)) {
                    kafka.put(name.substring(PREFIX.length()), value);
                }
            });
            return new Settings(kafka, options.get("topic"));
        }
    }

    /** Return a producer with these settings that no other task has. */
    static KafkaProducer<byte[], byte[]> take(Settings settings) {
        synchronized (IDLE) {
            Iterator<Map.Entry<KafkaProducer<byte[], byte[]>, Settings>> each = IDLE.entrySet().iterator();
            while (each.hasNext()) {
                Map.Entry<KafkaProducer<byte[], byte[]>, Settings> found = each.next();
                if (found.getValue().kafka.equals(settings.kafka)) {
                    each.remove();
                    return found.getKey();
                }
            }
        }
        return new KafkaProducer<>(settings.kafka, new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Keep a producer that has written all of its records. */
    static void keep(KafkaProducer<byte[], byte[]> producer, Settings settings) {
        KafkaProducer<byte[], byte[]> last = null;
        synchronized (IDLE) {
            IDLE.put(producer, settings);
            if (IDLE.size() > KEPT) {
                last = IDLE.keySet().iterator().next();
                IDLE.remove(last);
            }
        }
        if (last != null) {
            last.close(Duration.ZERO);
        }
    }
}
