package kappa.kafka;

import java.io.Serializable;
import java.time.Duration;
import java.util.HashMap;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The writers of a sink, as their driver describes them: `publisher.py` in Python.
 *
 * <p>The settings of Kafka's clients contain references to secrets, which a client resolves when it is created, so tasks receive no secret.
 */
record Publisher(HashMap<String, Object> kafka, String topic, String group, long generation, String incarnation) implements Serializable {
    private static final String PREFIX = "kafka.";

    static Publisher of(LogicalWriteInfo info) {
        CaseInsensitiveStringMap options = info.options();
        HashMap<String, Object> kafka = new HashMap<>();
        options.asCaseSensitiveMap().forEach((name, value) -> {
            if (name.startsWith(PREFIX)) {
                kafka.put(name.substring(PREFIX.length()), value);
            }
        });
        String incarnation = require(options, "checkpoint") + "/" + info.queryId();
        return new Publisher(
                kafka, require(options, "topic"), require(options, "group"), Long.parseLong(require(options, "generation")), incarnation);
    }

    private static String require(CaseInsensitiveStringMap options, String name) {
        String value = options.get(name);
        if (value == null) {
            throw new IllegalArgumentException("a transactional sink needs the option " + name);
        }
        return value;
    }

    /** Return one of the settings that are durations. */
    Duration duration(String setting) {
        return Duration.ofMillis(Long.parseLong(kafka.get(setting).toString()));
    }

    /** Return the transactional.id of a writer; it is the same in each generation. */
    String nameWriter(int number) {
        return group + "." + number;
    }
}
