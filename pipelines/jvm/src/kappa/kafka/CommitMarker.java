package kappa.kafka;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The batches that a writer has written, in the metadata of its group's offset in Kafka: `commit_marker.py`, which the driver uses, has the
 * same format. `producer` is the client that wrote last.
 */
public record CommitMarker(long generation, String producer, Map<String, Long> written) {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** Checkpoint incarnations in a marker. Kafka accepts 4,096 bytes (offset.metadata.max.bytes); one takes about 90. */
    private static final int INCARNATIONS = 8;

    /** The decision of a task about its batch, before it writes. */
    public enum Decision { TO_WRITE, WRITTEN, FENCED, LOST }

    /** Return the marker in the metadata of an offset; null if there is none, or another program wrote it. */
    public static CommitMarker parse(String text) {
        JsonNode found = read(text);
        if (!found.path("generation").isIntegralNumber() || !found.path("producer").isTextual() || !found.path("written").isObject()) {
            return null;
        }
        Map<String, Long> written = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> each : found.get("written").properties()) {
            if (!each.getValue().isIntegralNumber()) {
                return null;
            }
            written.put(each.getKey(), each.getValue().longValue());
        }
        return new CommitMarker(found.get("generation").longValue(), found.get("producer").textValue(), written);
    }

    private static JsonNode read(String text) {
        try {
            return JSON.readTree(text == null ? "" : text);
        } catch (JsonProcessingException other) {
            return JSON.missingNode();
        }
    }

    /**
     * Return the marker as the metadata of an offset. It ends with a NUL, as confluent-kafka writes it: that client, with which a driver takes over,
     * reads metadata up to a NUL, beyond its end if there is none.
     */
    public String toText() {
        Map<String, Object> parts = new LinkedHashMap<>();
        parts.put("generation", generation);
        parts.put("producer", producer);
        parts.put("written", written);
        return JSON.valueToTree(parts) + "\0";
    }

    /** Return the marker after a batch, with the latest of the other incarnations. */
    public CommitMarker after(String incarnation, long batch, String client) {
        Map<String, Long> latest = new LinkedHashMap<>(written);
        latest.remove(incarnation);
        Iterator<String> oldest = latest.keySet().iterator();
        while (latest.size() >= INCARNATIONS) {
            oldest.next();
            oldest.remove();
        }
        latest.put(incarnation, batch);
        return new CommitMarker(generation, client, latest);
    }

    /**
     * Return the decision of a task of a generation, whose marker may be null.
     *
     * <p>A driver writes the markers of all its writers before its first batch. If one is missing, Kafka has deleted it
     * (offsets.retention.minutes), and no task may write until a driver has acquired the writers again.
     */
    public static Decision decide(CommitMarker marker, long generation, String incarnation, long batch) {
        if (marker == null || marker.generation < generation) {
            return Decision.LOST;
        }
        if (marker.generation > generation) {
            return Decision.FENCED;
        }
        return marker.written.getOrDefault(incarnation, -1L) >= batch ? Decision.WRITTEN : Decision.TO_WRITE;
    }
}
